//! The program `weft`.
fn main() {}
