//! Where a node of a real cluster keeps the bytes of files.

use crate::exit::Failure;
use std::path::Path;
use std::sync::Arc;
use weft_store::{Directory, Objects, StoreId, StoreRefused};

/// Opens a store, which is that of one cluster and one of its servers. Where nobody asked for a new one, an empty directory is refused: a
/// server whose disk is not mounted would answer with zeros. `servers`: how many file servers the cluster has, where files are to outlive it.
///
/// # Errors
/// It is another's, in use, or cannot be read; there is none.
pub fn open(
    path: &Path,
    id: &StoreId,
    servers: Option<u32>,
    may_be_new: bool,
) -> Result<Arc<Objects>, Failure> {
    let open = if may_be_new { Directory::open_or_make } else { Directory::open };
    let directory = open(path, id).map_err(refused)?;
    servers.map_or(Ok(()), |servers| directory.of_servers(servers)).map_err(refused)?;
    let unusable = |why| Failure::unfinished(format!("{}: {why}", path.display()));
    Ok(Arc::new(Objects::of(directory).map_err(unusable)?))
}

/// Why a store is not opened, with what makes a new one.
fn refused(why: StoreRefused) -> Failure {
    match why {
        StoreRefused::Empty { .. } => {
            Failure::bad_input(format!("{why} `weft daemon --new-store` makes a store there"))
        }
        _ => Failure::store(why),
    }
}
