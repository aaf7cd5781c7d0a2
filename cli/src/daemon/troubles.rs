//! What a daemon's log says of nodes that its device cannot reach, and of connections that its meshes could not make or accept.
//!
//! A connection is tried again for as long as something waits for it, and each attempt has the same to say. It is said once, and once more
//! when it comes again after a pause.

use super::machine::Backend;
use crate::troubles::Told;
use std::collections::BTreeMap;
use weft_protocols::rt::Rt;
use weft_protocols::transport::Mesh;
use weft_verbs::Nanos;

/// How often a node looks whether there is something to say.
const LOOK: Nanos = Nanos::from_secs(1);

/// How long nothing is heard of a trouble that is over: longer than from one attempt to the next, which wait half a minute for an answer
/// at the most.
const OVER: Nanos = Nanos::from_secs(60);

/// Says what keeps this node from others, until its systems end.
pub async fn log<V: Backend>(
    rt: Rt<V>,
    machine: V::Context,
    meshes: impl Fn() -> [Option<Mesh<V>>; 2],
    rank: u32,
) {
    let (mut known, mut told) = (Known::default(), [Told::default(), Told::default()]);
    loop {
        let meshes = meshes();
        let of_meshes =
            told.iter_mut().zip(&meshes).filter_map(|(told, mesh)| Some(told.fresh(mesh.as_ref()?)));
        let of_meshes = of_meshes.flatten().map(|(text, _)| text);
        let heard = V::take_troubles(&machine).into_iter().chain(of_meshes).collect();
        for text in known.fresh(rt.now(), heard) {
            tracing::warn!("node {rank}: {text}");
        }
        rt.sleep(LOOK).await;
    }
}

/// When each trouble was heard of last, as long as it is not over.
#[derive(Debug, Default)]
struct Known(BTreeMap<String, Nanos>);

impl Known {
    /// Those that nobody has said yet.
    fn fresh(&mut self, now: Nanos, heard: Vec<String>) -> Vec<String> {
        self.0.retain(|_, last| now < *last + OVER);
        heard.into_iter().filter(|text| self.0.insert(text.clone(), now).is_none()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_node_from_another_one_is_said_once_until_it_is_over() {
        let mut known = Known::default();
        let mut at = |second: u64, heard: &[&str]| {
            known.fresh(Nanos::from_secs(second), heard.iter().map(ToString::to_string).collect())
        };
        assert_eq!(at(0, &["n1", "n1", "n2"]), ["n1", "n2"]);
        assert_eq!(at(20, &["n1"]), [""; 0], "it goes on");
        assert_eq!(at(70, &["n1", "n2"]), ["n2"], "it was over, and has come again");
        assert_eq!(at(130, &["n3", "n1"]), ["n3", "n1"]);
        assert_eq!(known.0.len(), 2, "what is over is forgotten");
    }
}
