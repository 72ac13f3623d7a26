"""Time to quality: iterations to a target, measured in trainings, and joined with the predicted time of one."""
