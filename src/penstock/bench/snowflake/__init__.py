"""`penstock bench snowflake`: a landing zone on Snowflake's stand-in."""
