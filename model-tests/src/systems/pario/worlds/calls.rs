//! What a client of files may call, a letter each.

use crate::explore::SizeError;

/// A call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Write,
    WriteBeyond,
    Read,
    Create,
    Hold,
    Unlink,
    Make,
    Look,
    Rename,
    CreateOther,
    OpenOther,
    Close,
    Append,
    Cut,
    Leave,
    Die,
    Meet,
    MakeTogether,
    CutTogether,
    List,
    Stat,
    Say,
    Sync,
}

impl Call {
    const ALL: [(char, Call); 23] = [
        ('w', Call::Write),
        ('f', Call::WriteBeyond),
        ('r', Call::Read),
        ('x', Call::Close),
        ('a', Call::Append),
        ('t', Call::Cut),
        ('c', Call::Create),
        ('h', Call::Hold),
        ('u', Call::Unlink),
        ('m', Call::Make),
        ('o', Call::Look),
        ('n', Call::Rename),
        ('k', Call::CreateOther),
        ('p', Call::OpenOther),
        ('l', Call::Leave),
        ('d', Call::Die),
        ('b', Call::Meet),
        ('g', Call::MakeTogether),
        ('s', Call::CutTogether),
        ('i', Call::List),
        ('e', Call::Stat),
        ('v', Call::Say),
        ('y', Call::Sync),
    ];

    /// The call of a letter.
    pub(super) fn of(letter: char) -> Result<Call, SizeError> {
        let known = Call::ALL.into_iter().find(|(known, _)| *known == letter);
        let refused = || SizeError(format!("calls are {}, not '{letter}'", Call::letters(|_| true)));
        known.map(|(_, call)| call).ok_or_else(refused)
    }

    /// The letters of some, as a sentence lists them.
    pub(super) fn letters(which: impl Fn(Call) -> bool) -> String {
        let some = Call::ALL.into_iter().filter(|(_, call)| which(*call));
        let letters: Vec<String> = some.map(|(letter, _)| letter.to_string()).collect();
        match letters.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => letters.concat(),
        }
    }

    pub(super) fn letter(self) -> char {
        Call::ALL.into_iter().find(|(_, call)| *call == self).map_or('?', |(letter, _)| letter)
    }

    /// Whether all members of a group call it together.
    pub(super) fn is_of_group(self) -> bool {
        matches!(self, Call::Meet | Call::MakeTogether | Call::CutTogether)
    }

    /// Whether a daemon does it for those who have nothing open.
    pub(super) fn is_by_name(self) -> bool {
        use Call::{Create, CreateOther, Cut, List, Look, Make, Rename, Stat, Unlink};
        matches!(self, Create | CreateOther | Make | Look | Cut | Unlink | Rename | List | Stat)
    }

    /// Whether it may give a name to another file, or to none.
    pub(super) fn changes_names(self) -> bool {
        matches!(
            self,
            Call::Create | Call::CreateOther | Call::Hold | Call::Make | Call::Unlink | Call::Rename
        )
    }

    pub(super) fn is_transfer(self) -> bool {
        matches!(self, Call::Write | Call::Read)
    }
}
