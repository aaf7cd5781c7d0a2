//! Gets and puts that are begun and waited for later (ddss.txt, 4 and 5.9: `async_get`, `async_put`, `wait_ss`).

use super::service::Ddss;
use super::{DdssError, Segment};
use crate::rt::JoinHandle;
use weft_verbs::Verbs;

/// A get or a put that goes on. Dropping it recalls nothing: it goes on, and nobody is told of its end.
pub struct Transfer<T>(JoinHandle<Result<T, DdssError>>);

impl<T> Transfer<T> {
    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// Those of the call; or the node has been shut down.
    pub async fn wait(self) -> Result<T, DdssError> {
        self.0.await.unwrap_or(Err(DdssError::Closed))
    }
}

impl<V: Verbs> Ddss<V> {
    /// Begins a [put](Ddss::put). Puts of one node to one segment are carried out in the order in which they began
    /// (but under null).
    pub fn begin_put(&self, segment: &Segment<V>, value: Vec<u8>) -> Transfer<Option<u64>> {
        let (ddss, segment) = (self.clone(), segment.clone());
        let place = segment.0.in_line();
        Transfer(self.0.rt.spawn(async move { ddss.put_at(place, &segment, &value).await }))
    }

    /// Begins a [get](Ddss::get). Its end has the value and its version.
    pub fn begin_get(&self, segment: &Segment<V>) -> Transfer<(Vec<u8>, u64)> {
        let (ddss, segment) = (self.clone(), segment.clone());
        Transfer(self.0.rt.spawn(async move {
            let mut value = vec![0; segment.spec().size as usize];
            let version = ddss.get(&segment, &mut value).await?;
            Ok((value, version))
        }))
    }
}
