//! Whom views leave out, told to oracles.

use weft_protocols::members::Change;
use weft_protocols::rt::sync::Mailbox;

/// Says each node that a view leaves out as it begins here. To be started before what uses the membership: what calls end with is judged by
/// who has been left out.
pub async fn left_out(mut changes: Mailbox<Change>, says: impl Fn(u32)) {
    while let Ok(change) = changes.recv().await {
        let Change::Begins { left, .. } = change else { continue };
        left.iter().for_each(|member| says(member.rank.index() as u32));
    }
}
