//! Requests against the whole router, without a socket.
