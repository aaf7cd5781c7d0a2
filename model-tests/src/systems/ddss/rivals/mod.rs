//! What a user would take instead of shared segments, on the same transport: measured beside them by `weft bench ddss`, and judged by
//! the same oracles, under model write.

mod calls;
mod rpc;
mod versioned;

use super::history::{Value, What, Why};
use super::workload::{Call, Request, Store};
use crate::history::RequestId;
use crate::system::Place;
use rpc::Rpc;
use versioned::Objects;
use weft_protocols::transport::TransportError;
use weft_verbs::Verbs;

/// A node's part of another store.
pub enum Rival<V: Verbs> {
    /// Values behind their homes' processors.
    Rpc(Rpc<V>),
    /// Objects that are read without their homes' processors.
    Versioned(Objects<V>),
}

impl<V: Verbs> Clone for Rival<V> {
    fn clone(&self) -> Rival<V> {
        match self {
            Rival::Rpc(rpc) => Rival::Rpc(rpc.clone()),
            Rival::Versioned(objects) => Rival::Versioned(objects.clone()),
        }
    }
}

/// What a rival's call comes to: the version and, of a get, the value; none if its node is shut down or has no memory.
type Answer<T> = Option<T>;

impl<V: Verbs> Rival<V> {
    /// Starts a node's part, if the store is not that of the segments. Values have `size` bytes.
    pub fn start(place: &Place<V>, store: Store, size: u32) -> Result<Option<Rival<V>>, TransportError> {
        Ok(match store {
            Store::Segments => None,
            Store::Rpc => Some(Rival::Rpc(Rpc::start(place, size)?)),
            Store::Versioned => Some(Rival::Versioned(Objects::start(place, size)?)),
        })
    }

    /// Carries out a get or a put.
    pub async fn perform(&self, id: RequestId, Request { segment, call }: Request, size: u32) -> What {
        let name = segment.0;
        let done = match call {
            Call::Put => {
                let value = Value::bytes(id, size as usize);
                let put = match self {
                    Rival::Rpc(rpc) => rpc.put(name, &value).await,
                    Rival::Versioned(objects) => objects.put(name, &value).await,
                };
                put.map(|version| What::Put { version: Some(version) })
            }
            _ => {
                let got = match self {
                    Rival::Rpc(rpc) => rpc.get(name).await,
                    Rival::Versioned(objects) => objects.get(name).await,
                };
                got.map(|(version, value)| What::Got { value: Value::of(&value), version: Some(version) })
            }
        };
        done.unwrap_or(What::Failed(Why::NotSaid))
    }
}
