//! Tests of the backend from outside: the contract's suite, and files served between machines of this process.

mod bed;
mod conformance;
mod files;
