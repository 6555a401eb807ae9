#!/bin/sh
# Install Debian or Ubuntu packages without starting their services: penstock starts its own servers,
# on ports of its own. Run it as root: install_packages.sh PACKAGE...
set -eu

export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d

# policy-rc.d decides whether a package may start its service (invoke-rc.d(8)): 101 forbids it.
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

apt-get update -qq -o DPkg::Lock::Timeout=600

apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=600 "$@"
