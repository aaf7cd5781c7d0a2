//! The tests of the simulated fabric, through the verbs contract and through what it has of its own.
//!
//! One binary, which links once.

mod common;
mod conformance;
mod connect;
mod devices;
mod engine;
mod explore;
mod fabric;
mod jitter;
mod migration;
mod primitives;
mod sanitizer;
mod streams;
mod transitions;
mod visibility;
