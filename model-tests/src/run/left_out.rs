//! Whom views leave out, told to oracles.

use weft_protocols::members::{Change, Members};
use weft_protocols::rt::Rt;
use weft_verbs::{Nanos, Verbs};

/// Says, from a task of its own, each node that a view leaves out as it begins here, and when. To be called before what uses the membership
/// starts: what calls end with is judged by who has been left out.
pub fn left_out<V: Verbs>(rt: &Rt<V>, members: &Members<V>, says: impl Fn(Nanos, u32) + 'static) {
    let (clock, mut changes) = (rt.clone(), members.changes());
    drop(rt.spawn(async move {
        while let Ok(change) = changes.recv().await {
            let Change::Begins { left, .. } = change else { continue };
            left.iter().for_each(|member| says(clock.now(), member.rank.index() as u32));
        }
    }));
}
