//! The untimed fabric: what can happen in it, and what it promises to an explorer.

mod clocks;
mod commute;
mod disks;
mod in_order;
mod memo;
mod outcomes;
mod root;
mod shortages;
mod walks;
mod world;
