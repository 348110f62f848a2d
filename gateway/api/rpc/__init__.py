"""The gRPC face: protos → requests, one service function, answers → protos, errors → statuses."""
