"""Training on Ray: environments in actors on one machine or on a cluster, and a learner in the driver."""
