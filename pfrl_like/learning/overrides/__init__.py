"""Methods of PFRL's agents that a subclass may override: their table, their detection, and the code that calls them."""
