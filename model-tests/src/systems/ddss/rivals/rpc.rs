//! A key-value store by remote procedure calls: the home's processor keeps the values and serves gets and puts.

use super::Answer;
use super::calls::Calls;
use crate::system::Place;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_protocols::transport::TransportError;
use weft_verbs::{Verbs, Work};

const GET: u8 = 1;
const PUT: u8 = 2;

/// A node's part.
pub struct Rpc<V: Verbs>(Rc<Calls<V>>);

impl<V: Verbs> Clone for Rpc<V> {
    fn clone(&self) -> Rpc<V> {
        Rpc(Rc::clone(&self.0))
    }
}

impl<V: Verbs> Rpc<V> {
    pub fn start(place: &Place<V>, size: u32) -> Result<Rpc<V>, TransportError> {
        let kept: RefCell<BTreeMap<u64, (u64, Vec<u8>)>> = RefCell::default();
        let rt = place.rt.clone();
        let calls = Calls::start(place, move |(kind, name, payload)| {
            let mut kept = kept.borrow_mut();
            let (version, value) = kept.entry(name).or_insert_with(|| (0, vec![0; size as usize]));
            rt.spend(Work::Copy { bytes: size.into() });
            if kind == PUT {
                *version += 1;
                value.copy_from_slice(payload);
                return (*version, Vec::new());
            }
            (*version, value.clone())
        })?;
        Ok(Rpc(calls))
    }

    pub async fn get(&self, name: u64) -> Answer<(u64, Vec<u8>)> {
        self.0.call((GET, name, &[])).await
    }

    pub async fn put(&self, name: u64, value: &[u8]) -> Answer<u64> {
        self.0.call((PUT, name, value)).await.map(|(version, _)| version)
    }
}
