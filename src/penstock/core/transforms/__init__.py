"""What a spolt, or a link, may do to rows on their way: pure, by column, with the schema that results."""
