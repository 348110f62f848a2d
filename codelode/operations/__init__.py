"""Tools for operators: backups, the doctor, evaluation, and the configuration of agents."""
