//! The link's promises, over a connection manager that delays, loses and reorders.
