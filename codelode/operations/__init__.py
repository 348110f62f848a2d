"""Operations tools that run offline over the ports: backups, the doctor, evaluation."""
