//! Lists of pieces of memory, over connections whose send queues are short.

use std::cell::RefCell;
use std::rc::Rc;
use weft_check::paper::{Cluster, Machine};
use weft_protocols::pario::{Datatype, FsConfig, FsError, Pario, View};
use weft_sim::profile::Profile;
use weft_sim::{Config, Sim};
use weft_verbs::{Nanos, Wait};

const PIECES: u64 = 64;
const PIECE: u64 = 512;

/// Writes every other piece of a buffer to a file as one range, and reads it back into such pieces. What is in these then.
async fn there_and_back(files: Pario<Sim>) -> Result<Vec<u8>, FsError> {
    let piece = Datatype::bytes(PIECE).ok_or(FsError::TooLong)?;
    let pieces = Datatype::vector(PIECES, 2 * PIECE, piece).and_then(|pieces| View::new(0, pieces));
    let (here, there) = pieces.zip(View::of(0..PIECES * PIECE)).ok_or(FsError::TooLong)?;
    let file = files.create("a", None).await?;
    let buffer = files.buffer(here.end() as usize)?;
    for nth in 0..PIECES {
        buffer.write((nth * 2 * PIECE) as usize, &[nth as u8; PIECE as usize])?;
    }
    files.write_list(&file, &there, buffer, &here).await.0?;
    let (read, buffer) = files.read_list(&file, &there, files.buffer(here.end() as usize)?, &here).await;
    read?;
    let mut bytes = vec![0; here.end() as usize];
    buffer.read(0, &mut bytes)?;
    files.close(file).await?;
    Ok(bytes)
}

#[test]
fn pieces_of_memory_are_moved_however_short_the_send_queues_are() {
    for depth in [4, 5, 16, 64] {
        let profile = Profile::builtin("present-day").expect("a profile");
        // Nothing rides in messages.
        let config = FsConfig { eager: 0, ..FsConfig::new(1) };
        let cluster = Cluster::new(
            Config::new(2, profile),
            |_| Wait::Poll,
            |mesh| {
                mesh.max_message = config.max_message();
                mesh.send_depth = depth;
            },
        )
        .expect("a cluster");
        let start = |Machine { rt, mesh }: &Machine| Pario::start(rt, mesh, config).expect("it can be");
        let files: Vec<_> = cluster.machines.iter().map(start).collect();
        let (client, ended) = (files[1].clone(), Rc::new(RefCell::new(Vec::new())));
        let end = Rc::clone(&ended);
        drop(cluster.machines[1].rt.spawn(async move {
            let done = there_and_back(client).await;
            end.borrow_mut().push(done);
        }));
        let ended = cluster.finish(Nanos::from_secs(5), &ended, 1).expect("all calls end");
        let bytes = ended[0].as_ref().unwrap_or_else(|why| panic!("depth {depth}: {why}"));
        let pieces = bytes.chunks(PIECE as usize).step_by(2);
        assert!(pieces.enumerate().all(|(nth, piece)| piece.iter().all(|byte| *byte == nth as u8)));
    }
}
