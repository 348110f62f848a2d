"""What an operator runs beside the cluster, over the ports: backups, the doctor, evaluation."""
