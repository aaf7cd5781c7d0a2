//! What programs of one cluster say to each other, in bytes: a sample of each message. Where a program of another build would say others,
//! it must be told so at once, by the control plane's version.
//!
//! What programs on the nodes say to each other beneath their systems is not here.

use std::net::IpAddr;
use weft_control::handshake::VERSION;
use weft_control::message::{
    Answer, Ask, Call, Counts, Entry, Failed, FromNode, Join, Member, Opening, Presence, Question, Report,
    Status, ToClient, ToNode, View, encode,
};
use weft_control::refusal::Refusal;
use weft_control::secret::digest;
use weft_protocols::ddss::{Model, Name, named};
use weft_protocols::members::{self, Ballot, Envelope, ViewId};
use weft_protocols::pario::{Distribution, Handle, remote};
use weft_protocols::transport::Rank;
use weft_verbs::Nanos;

fn text(text: &str) -> String {
    text.to_string()
}

fn address() -> IpAddr {
    IpAddr::from([10, 0, 0, 1])
}

fn report() -> Report {
    let about = [(text("state"), text("running"))].into();
    Report { view: Some(View { number: 2, members: vec![0, 1] }), systems: [(text("files"), about)].into() }
}

fn entries() -> Vec<Entry> {
    let entry = |presence| Entry { rank: 1, incarnation: 7, address: address(), blob: vec![1, 2], presence };
    [Presence::Present, Presence::Left, Presence::Lost(text("why"))].map(entry).to_vec()
}

fn openings() -> Vec<u8> {
    let (cluster, program, scenario) = (text("blue"), text("0.1.0"), text("5eed"));
    let (incarnation, address, blob) = (7, Some(address()), vec![1, 2]);
    let join = Join { cluster, program, scenario, rank: 1, nodes: 3, incarnation, address, blob };
    let call = Call { node: Some(1), system: text("files"), body: vec![1, 2] };
    let ask = |question| encode(&Opening::Ask(Ask { cluster: Some(text("blue")), question }));
    [encode(&Opening::Join(join)), ask(Question::Status), ask(Question::Call(call))].concat()
}

fn from_nodes() -> Vec<u8> {
    let failed = Answer::Failed(Failed::for_good("no"));
    let said = [
        FromNode::Alive,
        FromNode::Here,
        FromNode::Report(report()),
        FromNode::Answer { id: 1, answer: Answer::Done(vec![1, 2]) },
        FromNode::Answer { id: 1, answer: failed },
        FromNode::Known(entries()),
        FromNode::Leave,
    ];
    said.iter().flat_map(encode).collect()
}

fn to_nodes() -> Vec<u8> {
    let said = [
        ToNode::Welcome { coordinator: 1, beat_ms: 2, silence_ms: 3 },
        ToNode::Refused(Refusal::RankTaken { rank: 1, holder: text("10.0.0.1") }),
        ToNode::Roster(entries()),
        ToNode::Alive,
        ToNode::Probe,
        ToNode::Call { id: 1, system: text("files"), body: vec![1, 2] },
        ToNode::Farewell,
        ToNode::Ending,
    ];
    said.iter().flat_map(encode).collect()
}

fn to_clients() -> Vec<u8> {
    let (presence, address) = (Some(Presence::Present), Some(address()));
    let member = Member { rank: 1, presence, address, since_ms: 1, heard_ms: 2, report: report() };
    let counts = Counts { joined: 1, left: 2, lost: 3, answered: 4, refused: 5, strangers: 6 };
    let (cluster, program) = (text("blue"), text("0.1.0"));
    let said = [
        ToClient::Status(Box::new(Status { cluster, program, up_ms: 1, members: vec![member], counts })),
        ToClient::Answer { node: 1, answer: Answer::Done(vec![1, 2]) },
        ToClient::Refused(Refusal::Ending),
        ToClient::Alive,
        ToClient::Bye,
    ];
    said.iter().flat_map(encode).collect()
}

fn of_members() -> Vec<u8> {
    use members::Message;
    let member = |index| members::Member { rank: Rank::from_index(index), incarnation: 7 };
    let about = member(1);
    let ballot = Ballot { round: 1, by: 7 };
    let accepted = ballot;
    let after = ViewId { lineage: ballot, number: 2 };
    let view = members::View { id: after, members: vec![member(0)], left: vec![member(1)] };
    let said = [
        Message::Join,
        Message::Leave,
        Message::Prepare { after: view.clone(), ballot },
        Message::Promise { after, ballot, accepted: Some((ballot, view.clone())) },
        Message::Accept { after, ballot, next: view.clone() },
        Message::Accepted { after, ballot },
        Message::Decided { view },
        Message::Renew { view: after, id: 5 },
        Message::Renewed { view: after, id: 5 },
        Message::Ping { view: after },
        Message::Pong { view: after },
        Message::Complaint { about },
        Message::Vouch { about },
        Message::GivenUp { view: after },
        Message::Ask { view: after, accepted },
        Message::Acts { view: after, accepted },
    ];
    said.into_iter().flat_map(|message| Envelope { from: 7, to: 8, message }.encode()).collect()
}

fn of_files() -> Vec<u8> {
    use remote::{Listed, Reply, Request};
    let (name, other, handle) = (|| text("a"), || text("b"), Handle(7));
    let asked = [
        Request::List { directory: name(), after: other(), sizes: true },
        Request::Stat { name: name() },
        Request::Create { name: name(), strip: Some(4_096), servers: Some(2) },
        Request::Write { name: name(), handle, at: 8, bytes: vec![1, 2] },
        Request::Read { name: name(), handle, at: 8, len: 9 },
        Request::Truncate { name: name(), size: 7 },
        Request::Remove { name: name() },
        Request::MakeDirectory { path: name() },
        Request::RemoveDirectory { path: name() },
        Request::Rename { from: name(), to: other(), replaces: true },
    ];
    let layout = Distribution::stripe(4_096, 2, 1).expect("it is one");
    let listed = Listed { name: name(), is_directory: false, size: Some(7) };
    let answered = [
        Reply::Names { entries: vec![listed], more: true },
        Reply::Stat { handle, size: 8, layout },
        Reply::Bytes(vec![1, 2]),
        Reply::Done,
    ];
    let asked = asked.iter().flat_map(Request::to_bytes);
    asked.chain(answered.iter().flat_map(Reply::to_bytes)).collect()
}

fn of_segments() -> Vec<u8> {
    use named::{Reply, Request, Row, Seen};
    let (name, home, model) = (|| text("a"), Rank::from_index(0), Model::Strict);
    let known = Some(Seen { version: 7, of: None });
    let asked = [
        Request::Put {
            name: name(),
            size: Some(16),
            model: Some(model),
            home: Some(home),
            value: vec![1, 2],
        },
        Request::Get { name: name(), known, wait: Nanos(8) },
        Request::Remove { name: name() },
        Request::Kept { after: None },
    ];
    let row = Row { name: Some(name()), version: 7, len: 8, size: 16, memory: 32, model };
    let answered = [
        Reply::Put { version: Some(7), home },
        Reply::Same { version: 7 },
        Reply::Removed,
        Reply::Kept { rows: vec![row], more: Some(Name(9)) },
    ];
    let asked = asked.iter().flat_map(Request::to_bytes);
    asked.chain(answered.iter().flat_map(Reply::to_bytes)).collect()
}

/// If this fails, what programs say has changed: raise [`VERSION`] by one, and write down here what is said now.
#[test]
fn what_is_said_does_not_change_without_another_version() {
    let control = [openings(), from_nodes(), to_nodes(), to_clients()].concat();
    let said = [control, of_members(), of_files(), of_segments()].map(|bytes| digest(&bytes));
    let known = [CONTROL, MEMBERS, FILES, SEGMENTS].map(text);
    assert_eq!((VERSION, said), (4, known));
}

const CONTROL: &str = "76b8960e168c454ef347ffded3f8a68c";
const MEMBERS: &str = "26b2af57eebf32d4fbf4008243706363";
const FILES: &str = "df78b671eca3283b8e05b8d3c6f0c7d7";
const SEGMENTS: &str = "ec8f389724bdcb1a633a40e3182dc1a6";
