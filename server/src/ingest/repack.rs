//! Packing blobs again, smaller, when nothing else is to be done.
