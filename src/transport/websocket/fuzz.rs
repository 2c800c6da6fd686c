//! The body of a fuzz target: any bytes, cut anywhere, and what must hold for the frames in them.
