use super::super::access::Run;
use super::super::{Datatype, FsConfig};
use super::*;

fn requests() -> Vec<Request> {
    let (handle, layout) = (Handle(7), Distribution::stripe(64, 3, 1).unwrap());
    let (name, path) = (|| Name::new("a name").unwrap(), || Path::new("a/path").unwrap());
    let rows = Datatype::vector(10, 50, Datatype::bytes(10).unwrap()).unwrap();
    let (file, view) = (View::new(1 << 40, rows).unwrap(), View::of(5..105).unwrap());
    let bytes = Bytes { handle, layout, file, from: 7, len: 90 };
    let memory = Memory { slice: RemoteSlice { addr: 1 << 44, len: 100, rkey: 9 }, view, from: 3, load: 8 };
    vec![
        Request::Create { path: path(), layout },
        Request::Open { path: path() },
        Request::Close { handle, epoch: 7 },
        Request::Unlink { path: path() },
        Request::List { directory: path(), after: Some(name()) },
        Request::MakeDirectory { path: path() },
        Request::RemoveDirectory { path: path() },
        Request::Rename { from: path(), to: Path::new("b").unwrap(), replaces: true },
        Request::Size { handle },
        Request::Read { bytes: bytes.clone(), into: Target::Answer },
        Request::Read { bytes: bytes.clone(), into: Target::Memory(memory.clone()) },
        Request::Write { bytes, from: Source::Memory(memory) },
        Request::Sync { handle },
        Request::Remove { handle, first: Handle(3) },
        Request::Lives { handle },
        Request::Moved { op: 5, done: true },
        Request::Epoch,
        Request::Opens { epoch: 5, after: Handle(3) },
        Request::Recorded {
            asked: Asked { slot: 3, sequence: 1 << 40 },
            request: Box::new(Request::Create { path: path(), layout }),
        },
        Request::Stat { path: path() },
        Request::SetAttributes {
            path: path(),
            set: SetAttributes { mode: Some(0o600), group: Some(7), modified: Some(9), owner: None },
        },
        Request::Place { handle, len: 5, least: 6, cuts: (1, 2) },
        Request::Placed { handle, at: 6 },
        Request::Truncate { handle, size: 9 },
        Request::Cut { handle, size: 9, grows: true },
        Request::Gather { group: 4, round: 5, member: 1, members: 3, word: 6 },
    ]
}

#[test]
fn every_request_survives_its_bytes_and_no_part_of_it_is_that_request() {
    for request in requests() {
        let bytes = request.encode(3);
        assert_eq!(Request::decode(&bytes), Some((3, request.clone())));
        assert_eq!(Request::of_frame(request.clone().into_frame(3)), Some((3, request.clone())));
        let part = |end| Request::decode(&bytes[..end]).is_none_or(|(_, other)| other != request);
        assert!((0..bytes.len()).all(part), "{request:?}");
        assert_eq!(Request::decode(&[&bytes[..], &[0]].concat()), None, "{request:?}");
    }
    let read = |request: &Request| matches!(request, Request::Read { .. });
    let Some(Request::Read { bytes, .. }) = requests().into_iter().find(read) else { panic!("a read") };
    for data in [vec![], vec![1, 2, 3]] {
        let write = Request::Write { bytes: bytes.clone(), from: Source::Request(data) };
        assert_eq!(Request::of_frame(write.clone().into_frame(4)), Some((4, write.clone())));
        assert_eq!(Request::decode(&write.encode(4)), Some((4, write)));
    }
    let list = Request::List { directory: Path::default(), after: None };
    assert_eq!(Request::decode(&list.encode(1)), Some((1, list)));
}

#[test]
fn paths_of_any_length_fit_into_messages_in_which_no_data_rides() {
    let config = FsConfig { eager: 0, ..FsConfig::new(1) };
    let path = || Path::new(&format!("xx/{}x", "x/".repeat(510))).expect("a path");
    assert_eq!(path().as_str().len(), Path::LONGEST);
    let layout = Distribution::single(0);
    let (mode, owner, group, modified) = (Some(1), Some(2), Some(3), Some(4));
    let set = SetAttributes { mode, owner, group, modified };
    let recorded = |request| {
        let asked = Asked { slot: u16::MAX, sequence: u64::MAX };
        Request::Recorded { asked, request: Box::new(request) }
    };
    let rename = recorded(Request::Rename { from: path(), to: path(), replaces: true });
    assert_eq!(rename.encode(u64::MAX).len(), PATHS as usize);
    let longest = Name::new(&"x".repeat(Name::LONGEST));
    for request in [
        rename,
        recorded(Request::Create { path: path(), layout }),
        recorded(Request::SetAttributes { path: path(), set }),
        Request::List { directory: path(), after: longest },
    ] {
        assert!(request.encode(u64::MAX).len() <= config.max_message() as usize, "{request:?}");
    }
}

#[test]
fn every_answer_survives_its_bytes() {
    let entry = |text, is_directory| DirEntry { name: Name::new(text).unwrap(), is_directory };
    let layout = Distribution::single(2);
    for answer in [
        Answer::Done,
        Answer::Refused(Refusal::Full),
        Answer::Stat { file: Some((Handle(4), layout)), attributes: Attributes::FILE },
        Answer::Stat { file: None, attributes: Attributes::DIRECTORY },
        Answer::Place { at: 70 },
        Answer::Gathered(8),
        Answer::Cuts((5, 1)),
        Answer::Offer {
            op: 3,
            place: RemoteSlice { addr: 9, len: 8, rkey: 7 },
            runs: vec![Run { at: 1, len: 2 }, Run { at: 5, len: 6 }],
            writes: true,
        },
        Answer::Opened { handle: Handle(9), layout, epoch: 4 },
        Answer::At { epoch: 1 << 60 },
        Answer::Open { files: vec![(Handle(3), 2), (Handle(4), 1)], more: true },
        Answer::Names { names: vec![entry("x", true), entry("yy", false)], more: true },
        Answer::Size(1 << 50),
        Answer::Lives { given: 1 << 40 },
        Answer::Data { bytes: vec![5; 9], short: true },
        Answer::Pushed { short: false },
    ] {
        assert_eq!(Answer::decode(&answer.encode(8)), Some((8, answer)));
    }
}

#[test]
fn what_is_no_message_is_refused() {
    let bad_layout = [&[kind::OPENED][..], &[0; 32]].concat();
    let bad_name = [&[kind::OPEN][..], &[0; 8], &[4, 0], b"a//b"].concat();
    let bad_flag = [&[kind::PUSHED][..], &[0; 8], &[2]].concat();
    assert_eq!(Answer::decode(&bad_layout), None, "no strip");
    assert_eq!(Request::decode(&bad_name), None);
    assert_eq!(Answer::decode(&bad_flag), None);
    assert_eq!(Request::decode(&[77; 40]), None);
}
