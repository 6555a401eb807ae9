"""`penstock bench steady`: what a pipeline costs all day, while little flows."""
