"""Two coordinators' transports over real sockets, and whoever else comes to their ports."""
