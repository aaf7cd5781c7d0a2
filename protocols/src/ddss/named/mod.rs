//! Values by names that are texts, for people and scripts: what `weft segment` asks of a daemon.
//!
//! A segment of a program has a number and a fixed size, and what is in it is the program's. Here a value has a text for a name and the
//! length that it happens to have. So its segment begins with an envelope: a mark, the name, and the length. A name's
//! number is a hash of it, and the name in the envelope tells two names of one number apart.
//!
//! A name is bound once a value is there: nobody finds a segment in which nothing was put. The node that keeps the name keeps the value,
//! too, unless the asker says otherwise: so the death of one node loses the values of the names that it kept, and no others. Of a value that
//! is kept elsewhere the name is lost with its keeper: who removes that name at the value's home removes it.

mod language;
mod nameless;

pub use language::{MalformedCall, Reply, Request, Row, Seen, Which};

use super::{Ddss, DdssError, Key, Model, Name, Placement, Segment, Spec};
use crate::bytes::{can_be_shown, unknown};
use crate::rt::Rt;
use crate::transport::Rank;
use nameless::Nameless;
use thiserror::Error;
use weft_verbs::{Nanos, Verbs};

/// The longest name, in bytes.
pub const LONGEST_NAME: usize = 255;

/// The most bytes of a value, whatever its name.
pub const LARGEST_VALUE: u32 = Spec::LARGEST - Envelope::len(LONGEST_NAME) as u32;

/// The most bytes of the rows with which a node answers what it keeps, but for the last row: whoever asks has room for more.
const PAGE: usize = 32 * 1_024;

/// How often one that waits for a new version looks for it. Under version such a look moves one word, and under the others a value.
const LOOK: Nanos = Nanos::from_millis(20);

/// The longest that a get waits for a new version.
pub const LONGEST_WAIT: Nanos = Nanos::from_secs(20);

/// How long a call may take: longer than a get that waits, and shorter than the control plane waits for what a node answers.
const PATIENCE: Nanos = Nanos::from_secs(25);

/// How often a call looks for the segment of a name that others bind and remove meanwhile.
const TRIES: u32 = 4;

/// Why a request was not served.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NamedError {
    /// It is empty, too long, or has characters that no terminal should be sent.
    #[error("a name has 1 to {LONGEST_NAME} bytes and no control characters")]
    Name,
    /// Nothing has the name.
    #[error("there is no segment '{0}'")]
    Unknown(String),
    /// The value does not fit.
    #[error(
        "a value of {len} bytes does not fit into '{name}', which takes {most}: remove it, and put it anew with a larger size"
    )]
    TooLong {
        /// Whose value.
        name: String,
        /// Its length.
        len: usize,
        /// How long it may be.
        most: usize,
    },
    /// It is longer than its asker wants values of the name to be, which is not there yet.
    #[error("a value of {len} bytes is longer than the size that was asked for, {most}")]
    LongerThanAsked {
        /// Its length.
        len: usize,
        /// How long values were to be.
        most: usize,
    },
    /// It is there, and is otherwise.
    #[error(
        "'{name}' is there, takes {most} bytes and is under {model}: remove it first, or do not say what it is to be"
    )]
    Otherwise {
        /// Which one.
        name: String,
        /// How long its values may be.
        most: usize,
        /// Its model.
        model: Model,
    },
    /// Another name has the same number.
    #[error("'{0}' has the same number as another name that is in use: choose another name")]
    Taken(String),
    /// A program keeps something else there.
    #[error("what '{0}' stands for was not put by its name: a program keeps its own things there")]
    Foreign(String),
    /// Whoever has seen a value of its wants the next one, and its values have no versions.
    #[error("'{0}' is under null, where values have no versions: nobody can tell that there is a new one")]
    Versionless(String),
    /// Others bind and remove the name at the same time.
    #[error("'{0}' was made and removed by others at the same time: ask again")]
    Restless(String),
    /// The node has died that kept the value.
    #[error("node {node} has died, and what it kept is gone", node = .0.index())]
    Gone(Rank),
    /// The node is down that keeps the name, or is to keep the value. It may be back when it is asked again.
    #[error("node {node} is down, which is to be asked: ask again when it is back", node = .0.index())]
    Down(Rank),
    /// Nodes took too long, or went away.
    #[error("not all nodes answered for {} s{}: are they all up?", PATIENCE.as_secs_f64(), unknown(*.changes))]
    Late {
        /// Whether it may have changed something.
        changes: bool,
    },
    /// The segments say why.
    #[error("{0}")]
    Ddss(DdssError),
}

impl NamedError {
    /// Why a node does not answer about names, or makes nothing: nothing that it kept is asked for.
    fn of_keeper(why: DdssError) -> NamedError {
        match why {
            DdssError::Gone(node) => NamedError::Down(node),
            other => NamedError::Ddss(other),
        }
    }
}

impl From<DdssError> for NamedError {
    fn from(why: DdssError) -> NamedError {
        match why {
            DdssError::Gone(node) => NamedError::Gone(node),
            other => NamedError::Ddss(other),
        }
    }
}

/// What stands before a value.
struct Envelope;

impl Envelope {
    const MARK: [u8; 4] = *b"weft";

    /// Its length, for a name of so many bytes.
    const fn len(name: usize) -> usize {
        4 + 1 + 4 + name
    }

    /// A value in its envelope, as long as the segment.
    fn seal(name: &str, value: &[u8], size: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size);
        bytes.extend_from_slice(&Envelope::MARK);
        bytes.push(name.len() as u8);
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(value);
        bytes.resize(size, 0);
        bytes
    }

    /// The name and the value; none if no value was put here by a name.
    fn open(bytes: &[u8]) -> Option<(&str, &[u8])> {
        let rest = bytes.strip_prefix(&Envelope::MARK)?;
        let (&name, rest) = rest.split_first()?;
        let (len, rest) = rest.split_first_chunk()?;
        let (name, rest) = rest.split_at_checked(name.into())?;
        let value = rest.get(..u32::from_le_bytes(*len) as usize)?;
        Some((std::str::from_utf8(name).ok()?, value))
    }
}

/// The number of a name, which stands for its value's segment: Fowler, Noll and Vo's hash FNV-1a of 64 bits, without its highest bit.
pub fn number(name: &str) -> Name {
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    Name(hash & !(1 << 63))
}

/// The values of a cluster, by their names. Clones are the same.
pub struct Named<V: Verbs> {
    rt: Rt<V>,
    ddss: Ddss<V>,
}

impl<V: Verbs> Clone for Named<V> {
    fn clone(&self) -> Named<V> {
        Named { rt: self.rt.clone(), ddss: self.ddss.clone() }
    }
}

/// A value with its segment's facts.
struct Found {
    version: u64,
    name: String,
    value: Vec<u8>,
}

impl Found {
    /// What is in an envelope; none if there is none.
    fn of(version: u64, bytes: &[u8]) -> Option<Found> {
        let (name, value) = Envelope::open(bytes)?;
        Some(Found { version, name: name.into(), value: value.into() })
    }
}

impl<V: Verbs> Named<V> {
    /// Those of the segments of a node.
    pub fn new(rt: &Rt<V>, ddss: &Ddss<V>) -> Named<V> {
        Named { rt: rt.clone(), ddss: ddss.clone() }
    }

    /// Does what is asked within 25 s, or gives up. Nothing is put later: who was told nothing asks again, and an older value would take the
    /// place of a newer one. A release that a node was asked for it may carry out later.
    ///
    /// # Errors
    /// See [`NamedError`].
    pub async fn serve_in_time(&self, request: Request) -> Result<Reply, NamedError> {
        let changes = request.changes().is_some();
        let served = self.rt.within(PATIENCE, self.serve(request)).await;
        served.unwrap_or(Err(NamedError::Late { changes }))
    }

    /// Does what is asked, and waits for nodes as long as it takes. A call may be dropped: what it had made is released, unless others have
    /// found it and put something there.
    ///
    /// # Errors
    /// See [`NamedError`].
    pub async fn serve(&self, request: Request) -> Result<Reply, NamedError> {
        match request {
            Request::Put { name, size, model, home, value } => {
                check(&name)?;
                let wanted = Wanted { size, model, home };
                self.put(&name, wanted, &value).await
            }
            Request::Get { name, known, wait } => {
                check(&name)?;
                self.get(&name, known, wait.min(LONGEST_WAIT)).await
            }
            Request::Remove { name } => {
                check(&name)?;
                self.remove(name).await
            }
            Request::Kept { after } => self.kept(after).await,
        }
    }

    /// The segment that a name stands for.
    async fn find(&self, name: &str) -> Result<Option<Segment<V>>, NamedError> {
        let key = self.lookup(name).await?;
        match key.map(|key| self.ddss.attach(key)).transpose() {
            Err(DdssError::Released) => Ok(None),
            found => Ok(found?),
        }
    }

    /// The key that a name stands for.
    async fn lookup(&self, name: &str) -> Result<Option<Key>, NamedError> {
        self.ddss.lookup(number(name)).await.map_err(NamedError::of_keeper)
    }

    /// What a segment has, whatever its name, and however slowly its home answers; none if it was not put by a name.
    async fn look(&self, segment: &Segment<V>) -> Result<Option<Found>, DdssError> {
        let mut bytes = vec![0; segment.spec().size as usize];
        let version = self.ddss.get_at_leisure(segment, &mut bytes).await?;
        Ok(Found::of(version, &bytes))
    }

    /// What a segment has for who gets its value, by its model's promise, if it is of another version than this one.
    async fn look_anew(
        &self,
        segment: &Segment<V>,
        known: Option<u64>,
    ) -> Result<Option<Option<Found>>, DdssError> {
        let Spec { size, model } = segment.spec();
        let mut bytes = vec![0; size as usize];
        // Of other models that keep copies an older one may be good enough, which would hide what was put.
        let held = known.filter(|_| model == Model::Version);
        let version = self.ddss.get_if_newer(segment, held, &mut bytes).await?;
        let Some(version) = version.filter(|version| known != Some(*version)) else { return Ok(None) };
        Ok(Some(Found::of(version, &bytes)))
    }

    /// What is there by a name: who replaces or removes it need not know how old that is.
    async fn read(&self, name: &str, segment: &Segment<V>) -> Result<Found, NamedError> {
        its_own(name, self.look(segment).await?)
    }

    async fn put(&self, name: &str, wanted: Wanted, value: &[u8]) -> Result<Reply, NamedError> {
        for _ in 0..TRIES {
            let there = self.lookup(name).await?;
            let done = match there.map(|key| self.ddss.attach(key)).transpose() {
                Ok(Some(segment)) => self.replace(name, &segment, wanted, value).await,
                Ok(None) => Err(DdssError::Released.into()),
                Err(why) => Err(why.into()),
            };
            match done {
                // What is put takes the place of what died, and of what was released if the name stands for that still.
                Err(NamedError::Gone(_) | NamedError::Ddss(DdssError::Released)) => {}
                done => return done,
            }
            // Somebody else may have bound the name meanwhile.
            if let Some(done) = self.make(name, wanted, value, there).await? {
                return Ok(done);
            }
        }
        Err(NamedError::Restless(name.into()))
    }

    /// Puts a value in the place of another one.
    async fn replace(
        &self,
        name: &str,
        segment: &Segment<V>,
        wanted: Wanted,
        value: &[u8],
    ) -> Result<Reply, NamedError> {
        let Spec { size, model } = segment.spec();
        self.read(name, segment).await?;
        let most = size as usize - Envelope::len(name.len());
        if wanted.model.is_some_and(|wanted| wanted != model)
            || wanted.size.is_some_and(|wanted| wanted as usize != most)
            || wanted.home.is_some_and(|wanted| wanted != segment.key().home())
        {
            return Err(NamedError::Otherwise { name: name.into(), most, model });
        }
        if value.len() > most {
            return Err(NamedError::TooLong { name: name.into(), len: value.len(), most });
        }
        let version = self.ddss.put(segment, &Envelope::seal(name, value, size as usize)).await?;
        Ok(Reply::Put { version, home: segment.key().home() })
    }

    /// Makes a segment with a value, and gives it the name, which may stand for one that is gone. None if the name is another segment's
    /// meanwhile.
    async fn make(
        &self,
        name: &str,
        wanted: Wanted,
        value: &[u8],
        gone: Option<Key>,
    ) -> Result<Option<Reply>, NamedError> {
        let most = wanted.size.map_or_else(|| usual(value.len()), |size| size as usize);
        if value.len() > most {
            return Err(NamedError::LongerThanAsked { len: value.len(), most });
        }
        let size = Envelope::len(name.len()) + most;
        let model = wanted.model.unwrap_or(Model::Version);
        let impossible = |_| DdssError::Impossible(u32::MAX, model);
        let spec = Spec { size: size.try_into().map_err(impossible)?, model };
        let home = wanted.home.unwrap_or_else(|| number(name).home(self.ddss.0.mesh.size()));
        let key = self.ddss.allocate(spec, Placement::On(home)).await.map_err(NamedError::of_keeper)?;
        let mut nameless = Nameless::new(self, name, value, key);
        let bound = async {
            let version = self.ddss.put(&self.ddss.attach(key)?, &Envelope::seal(name, value, size)).await?;
            nameless.may_be_bound(version);
            self.ddss.bind_instead(number(name), Some(key), gone).await.map(|()| version)
        };
        match bound.await {
            Ok(version) => {
                nameless.bound();
                Ok(Some(Reply::Put { version, home: key.home() }))
            }
            Err(why) => match nameless.release().await {
                Ok(()) if matches!(why, DdssError::Otherwise { .. }) => Ok(None),
                Ok(()) => Err(NamedError::of_keeper(why)),
                // It was there, and was removed at its home before it had the name.
                Err(DdssError::Released) => {
                    let version = (model != Model::Null).then_some(1);
                    Ok(Some(Reply::Put { version, home }))
                }
                Err(why) => Err(NamedError::of_keeper(why)),
            },
        }
    }

    /// Removes a value; of one that died with its home, the name.
    async fn remove(&self, name: String) -> Result<Reply, NamedError> {
        let Some(there) = self.lookup(&name).await? else { return self.remove_lost(name).await };
        let released = async {
            self.read(&name, &self.ddss.attach(there)?).await?;
            Ok(self.ddss.release(there).await?)
        };
        match released.await {
            Ok(()) => {}
            Err(NamedError::Gone(_)) => {
                let forgotten = self.ddss.bind_instead(number(&name), None, Some(there)).await;
                forgotten.map_err(NamedError::of_keeper)?;
            }
            Err(NamedError::Ddss(DdssError::Released)) => return Err(NamedError::Unknown(name)),
            Err(why) => return Err(why),
        }
        Ok(Reply::Removed)
    }

    /// Removes what this node keeps of a name that stands for nothing: the name's keeper has begun anew since, or who put the value died
    /// before it had the name. (Or has not given it the name yet: then it is as if it had been removed just after that.)
    async fn remove_lost(&self, name: String) -> Result<Reply, NamedError> {
        let mut removed = false;
        for (key, _) in self.ddss.kept().into_iter().filter(|(key, _)| !key.name.is_given()) {
            let released = async {
                let found = self.look(&self.ddss.attach(key)?).await?;
                let is_it = found.is_some_and(|found| found.name == name);
                if is_it { self.ddss.release(key).await.map(|()| true) } else { Ok(false) }
            };
            match released.await {
                Err(DdssError::Released) => {}
                done => removed |= done?,
            }
        }
        if removed { Ok(Reply::Removed) } else { Err(NamedError::Unknown(name)) }
    }

    /// The value, once it is of another version than the one that is known, or the time is over.
    async fn get(&self, name: &str, known: Option<Seen>, wait: Nanos) -> Result<Reply, NamedError> {
        let end = self.rt.now() + wait;
        let (mut tries, mut gone) = (1..TRIES, None);
        loop {
            let segment = self.find(name).await?.ok_or_else(|| NamedError::Unknown(name.into()))?;
            let known = known.filter(|seen| seen.is_of(segment.key())).map(|seen| seen.version);
            match self.next(&segment, name, known, end).await {
                // The name may stand for another segment by now.
                Err(NamedError::Ddss(DdssError::Released)) if self.rt.now() < end => {
                    self.rt.sleep(LOOK).await;
                }
                // It stands for that still.
                Err(NamedError::Ddss(DdssError::Released)) if gone == Some(segment.key()) => {
                    return Err(NamedError::Unknown(name.into()));
                }
                Err(NamedError::Ddss(DdssError::Released)) => {
                    gone = Some(segment.key());
                    tries.next().ok_or_else(|| NamedError::Restless(name.into()))?;
                }
                done => return done,
            }
        }
    }

    async fn next(
        &self,
        segment: &Segment<V>,
        name: &str,
        known: Option<u64>,
        end: Nanos,
    ) -> Result<Reply, NamedError> {
        if known.is_some() && segment.spec().model == Model::Null {
            return Err(NamedError::Versionless(name.into()));
        }
        loop {
            match (self.look_anew(segment, known).await?, known) {
                (Some(found), _) => {
                    let Found { version, value, .. } = its_own(name, found)?;
                    let (key, model) = (segment.key(), segment.spec().model);
                    return Ok(Reply::Value { version, of: Which::of(key), home: key.home(), model, value });
                }
                (None, Some(version)) if self.rt.now() >= end => return Ok(Reply::Same { version }),
                (None, _) => self.rt.sleep(LOOK).await,
            }
        }
    }

    /// What this node keeps, from behind a number on.
    async fn kept(&self, after: Option<Name>) -> Result<Reply, NamedError> {
        let (mut rows, mut bytes, mut last) = (Vec::new(), 0, None);
        let behind = |(key, _): &(Key, u64)| after.is_none_or(|after| key.name > after);
        for (key, memory) in self.ddss.kept().into_iter().filter(behind) {
            if bytes >= PAGE {
                return Ok(Reply::Kept { rows, more: last });
            }
            let found = match self.ddss.attach(key) {
                Ok(segment) => self.look(&segment).await,
                Err(why) => Err(why),
            };
            let found = match found {
                // It went while this node looked.
                Err(DdssError::Released) => continue,
                found => found?,
            };
            let Spec { size, model } = key.spec();
            let row = match found {
                Some(Found { version, name, value }) => {
                    let size = size - Envelope::len(name.len()) as u32;
                    Row { name: Some(name), version, len: value.len() as u32, size, memory, model }
                }
                None => Row { name: None, version: 0, len: size, size, memory, model },
            };
            bytes += row.len_in_bytes();
            last = Some(key.name);
            rows.push(row);
        }
        Ok(Reply::Kept { rows, more: None })
    }
}

/// What a put says of the segment, if it says anything.
#[derive(Clone, Copy)]
struct Wanted {
    size: Option<u32>,
    model: Option<Model>,
    home: Option<Rank>,
}

/// What was found, if it is of this name.
fn its_own(name: &str, found: Option<Found>) -> Result<Found, NamedError> {
    match found {
        None => Err(NamedError::Foreign(name.into())),
        Some(found) if found.name != name => Err(NamedError::Taken(name.into())),
        Some(found) => Ok(found),
    }
}

fn check(name: &str) -> Result<(), NamedError> {
    let fits = !name.is_empty() && can_be_shown(name, LONGEST_NAME);
    fits.then_some(()).ok_or(NamedError::Name)
}

/// How long values may be if nobody says it: a value of this one's length, and room to grow as far as there can be any.
fn usual(len: usize) -> usize {
    len.max(64).next_power_of_two().min(LARGEST_VALUE as usize).max(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_survives_its_envelope_and_what_is_in_none_is_not_taken_for_one() {
        let sealed = Envelope::seal("load", b"0.25", 64);
        assert_eq!((sealed.len(), Envelope::open(&sealed)), (64, Some(("load", &b"0.25"[..]))));
        assert_eq!(Envelope::open(&[0; 64]), None);
        assert_eq!(Envelope::open(b"weft"), None);
        let mut wrong = sealed;
        wrong[5] = 0xFF;
        assert_eq!(Envelope::open(&wrong), None, "a value longer than its segment");
    }

    #[test]
    fn names_are_short_and_can_be_shown() {
        assert!(check("a name").is_ok() && check(&"x".repeat(LONGEST_NAME)).is_ok());
        for wrong in ["", "a\nb", "\u{1b}[2J", &"x".repeat(LONGEST_NAME + 1)] {
            assert_eq!(check(wrong), Err(NamedError::Name));
        }
    }
}
