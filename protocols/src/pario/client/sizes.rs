//! A client's calls about where a file ends: its size, bytes that are cut off, and bytes that are put behind its end.

use super::super::buffer::Buffer;
use super::super::calls::{Held, InUse};
use super::super::messages::{Answer, Request};
use super::super::service::Pario;
use super::super::{Distribution, FsError, Handle, Wire};
use super::{File, HOME, contiguous};
use std::rc::Rc;
use weft_verbs::Verbs;

impl<V: Verbs> Pario<V> {
    /// A file's size: exact while nobody writes, and else between its sizes at the call's begin and its end. Beside a cut of a file that lies on
    /// several servers it may be less: each of them cuts its part at a moment of its own.
    ///
    /// # Errors
    ///
    /// A server cannot be reached.
    pub async fn size(&self, file: &File<V>) -> Result<u64, FsError> {
        self.size_of(file.handle(), file.layout(), Some(file.in_use())).await.map(|(size, _)| size)
    }

    /// A file's size, and whether a server was asked again since it began anew: it knows no files that have ended.
    pub(super) async fn size_of(
        &self,
        handle: Handle,
        layout: Distribution,
        in_use: Option<&Rc<InUse>>,
    ) -> Result<(u64, bool), FsError> {
        let (mut asked, mut size, mut asked_again) = (Vec::new(), 0, false);
        for part in 0..layout.servers() {
            let held = Held { file: in_use.cloned(), ..Held::NOTHING };
            asked.push((part, self.0.ask(self.server(layout, part), Request::Size { handle }, held).await?));
        }
        for (part, told) in asked {
            let answer = match super::calls::answer(told).await {
                Err(FsError::Unknown) => {
                    asked_again = true;
                    self.until_answered(self.server(layout, part), Request::Size { handle }).await?
                }
                told => told?,
            };
            match answer {
                Answer::Size(object) => size = layout.size(part, object).max(size),
                _ => return Err(FsError::Nonsense),
            }
        }
        Ok((size, asked_again))
    }

    /// Gives a file another size, durably. Bytes behind it are gone, and zero should they ever be the file's again; bytes before it
    /// that nobody wrote are zero.
    ///
    /// # Errors
    ///
    /// No file is so long, or one of its servers began anew meanwhile: then it is cut, or in part, or is not.
    pub async fn truncate(&self, file: &File<V>, size: u64) -> Result<(), FsError> {
        if size > 1 << 63 {
            return Err(FsError::Position { at: size, len: 0 });
        }
        let held = Held { file: Some(Rc::clone(file.in_use())), ..Held::NOTHING };
        match self.call(HOME, Request::Truncate { handle: file.handle(), size }, held).await? {
            Answer::Done => Ok(()),
            _ => Err(FsError::Nonsense),
        }
    }

    /// Writes a buffer behind a file's end, and says where that is. The file's home gives out the place: no two appends have a byte in
    /// common, whatever crashes. One of no bytes says where the file ends. Bytes that are written otherwise than by appends at the same time may be among them.
    ///
    /// # Errors
    ///
    /// No file is so long; or as [`Pario::write`]: what was not written of a place that was given out stays zero.
    pub async fn append(&self, file: &File<V>, from: Buffer<V>) -> (Result<u64, FsError>, Buffer<V>) {
        let appended = self.append_from(file, &from).await;
        (appended, from)
    }

    async fn append_from(&self, file: &File<V>, from: &Buffer<V>) -> Result<u64, FsError> {
        if from.is_empty() {
            return self.size(file).await;
        }
        let (handle, len) = (file.handle(), from.len() as u64);
        let at = self.place(file, len).await?;
        let written = match contiguous(at, from.len()) {
            Ok((to, all)) => self.write_from(file, &to, from, &all).await,
            Err(why) => Err(why),
        };
        // Its stream broke, and a server may yet read what it carried: the place is this client's for good.
        if self.0.config.wire == Wire::Tcp && written == Err(FsError::Unknown) {
            return Err(FsError::Unknown);
        }
        // The place is this client's until then; a home that began anew takes it to be.
        let held = Held { file: Some(Rc::clone(file.in_use())), ..Held::NOTHING };
        drop(self.call(HOME, Request::Placed { handle, at }, held).await);
        written.map(|()| at)
    }

    /// A place behind the end of a file. Who had not seen how often the file was cut so far may have seen bytes that are gone.
    async fn place(&self, file: &File<V>, len: u64) -> Result<u64, FsError> {
        loop {
            let cuts = file.in_use().cuts.get();
            let least = self.size(file).await?;
            let request = Request::Place { handle: file.handle(), len, least, cuts };
            match self.once(request).await {
                Ok(Answer::Place { at }) => return Ok(at),
                Ok(Answer::Cuts(cuts)) => file.in_use().cuts.set(cuts),
                Ok(_) => return Err(FsError::Nonsense),
                // The home refuses a place that ends beyond the largest file, and does not say where that would be.
                Err(FsError::Nonsense) => return Err(FsError::Position { at: least, len }),
                Err(why) => return Err(why),
            }
        }
    }
}
