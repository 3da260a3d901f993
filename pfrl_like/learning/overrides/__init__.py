"""Methods of PFRL's agents that a subclass may override: their table, how they are found, and what calls them."""
