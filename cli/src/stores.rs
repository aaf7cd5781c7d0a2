//! Where a node of a real cluster keeps the bytes of files.

use crate::exit::Failure;
use std::path::Path;
use std::sync::Arc;
use weft_store::{Directory, Objects, StoreId};

/// Opens a store, which is that of one cluster and one of its servers.
///
/// # Errors
/// It is another's, in use, or cannot be read.
pub fn open(path: &Path, cluster: &str, server: u32) -> Result<Arc<Objects>, Failure> {
    let id = StoreId { cluster: cluster.to_string(), server };
    let directory = Directory::open(path, &id).map_err(Failure::store)?;
    let unusable = |why| Failure::unfinished(format!("{}: {why}", path.display()));
    Ok(Arc::new(Objects::of(directory).map_err(unusable)?))
}
