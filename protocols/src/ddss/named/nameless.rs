//! A segment that was made for a name and does not have it for certain: it is released if the call that made it is dropped.

use super::Named;
use crate::ddss::{DdssError, Key};
use weft_verbs::Verbs;

/// The segment. If it is dropped with a key, a task of the node releases that.
pub(super) struct Nameless<'a, V: Verbs> {
    named: &'a Named<V>,
    name: &'a str,
    value: &'a [u8],
    key: Option<Key>,
    /// The node that keeps the name may have been asked to bind it. The value has that version, if it has one.
    asked: Option<Option<u64>>,
}

impl<'a, V: Verbs> Nameless<'a, V> {
    pub(super) fn new(named: &'a Named<V>, name: &'a str, value: &'a [u8], key: Key) -> Nameless<'a, V> {
        Nameless { named, name, value, key: Some(key), asked: None }
    }

    /// Its value is there, and from here on others may find it.
    pub(super) fn may_be_bound(&mut self, version: Option<u64>) {
        self.asked = Some(version);
    }

    /// It has its name.
    pub(super) fn bound(mut self) {
        self.key = None;
    }

    /// It has not come by its name.
    pub(super) async fn release(mut self) -> Result<(), DdssError> {
        self.asked = None;
        let released = match self.key {
            Some(key) => self.named.ddss.release(key).await,
            None => Ok(()),
        };
        // Not before: this call may be dropped, too.
        self.key = None;
        released
    }
}

impl<V: Verbs> Drop for Nameless<'_, V> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let (named, name) = (self.named.clone(), self.name.to_owned());
        let asked = self.asked.map(|version| (version, self.value.to_vec()));
        let takes_back = async move {
            if let Some((version, value)) = asked
                && named.is_put_again(&name, key, (version, &value[..])).await
            {
                return;
            }
            drop(named.ddss.release(key).await);
        };
        drop(self.named.rt.spawn(takes_back));
    }
}

impl<V: Verbs> Named<V> {
    /// Whether others have put something where this was put and perhaps bound: they were told that it is there. One that is put between
    /// this answer and a release is lost, and where values have no versions one that is the same.
    async fn is_put_again(&self, name: &str, key: Key, (version, value): (Option<u64>, &[u8])) -> bool {
        // The question comes behind the call that was to bind the name, by the same way.
        if self.lookup(name).await != Ok(Some(key)) {
            return false;
        }
        let Ok(segment) = self.ddss.attach(key) else { return false };
        match self.look(&segment).await {
            Ok(Some(found)) => {
                found.value != value || version.is_some_and(|version| found.version != version)
            }
            // A program has put something that is in no envelope.
            Ok(None) => true,
            Err(_) => false,
        }
    }
}
