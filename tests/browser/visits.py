"""What every visit of a page in Chromium has: widths and colours, and what a page must not do to anybody."""

from __future__ import annotations

import contextlib
import itertools
import re
from typing import TYPE_CHECKING, Literal

from tests.servers.kinds import first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

Scheme = Literal["light", "dark"]
# Width and colours: each once for every change, both with both every night.
LOOKS = first(2, (400, "light"), (1400, "dark"), (400, "dark"), (1400, "light"))
# WCAG 2.2, 1.4.3: text in front of its ground.
CONTRAST_MIN = 4.5
# In the page: the contrast of each text with the ground behind it, by WCAG's formula; those that are too low.
LOW_CONTRAST = """
(least) => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const light = ({ r, g, b }) => {
    const part = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.a === 1) return colour;
    }
    return { r: 255, g: 255, b: 255 };
  };
  const low = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility()) continue;
    const one = light(parse(getComputedStyle(element).color)), other = light(ground(element));
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < least) low.push(`${node.data.trim().slice(0, 30)}: ${contrast.toFixed(2)}`);
  }
  return low;
}
"""


@contextlib.contextmanager
def visitor(browser: Browser, *, width: int = 1400, scheme: Scheme = "light", script: bool = True) -> Iterator[Page]:
    """A page of a browser of its own. What the page complains about fails the test."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
    )
    context.set_default_timeout(15_000)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if _is_defect(message.text) else None)
    yield page
    context.close()
    assert complaints == []


def _is_defect(message: str) -> bool:
    # The status of a page that is not there, of a form that was refused, or of what has to wait, is on the console too.
    return not re.search(r"the server responded with a status of (4|503)", message)


def require_structure(page: Page, path: str) -> None:
    """Every field has a label, headings are in order, and no id comes twice."""
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input:not([type=hidden]), select, textarea')]"
        ".filter((each) => !each.labels.length).map((each) => each.outerHTML)"
    )
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((each) => Number(each.tagName[1]))")
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert unnamed == [], path
    assert levels[0] == levels.count(1) == 1, path
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels)), path
    assert len(ids) == len(set(ids)), path
