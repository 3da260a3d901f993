"""Methods of PFRL's agents that subclasses may override: table of the methods, detection of overrides, and calls."""
