"""Options of connections to the registry's database, by SQLAlchemy's word for them."""

FOR_WRITING = "penstock_for_writing"
