//! TALKING TO ETCD: which sentence of etcd's means what. The sentences themselves are met in `tests/real_etcd.rs`.

use super::*;

fn of(call: Call, code: Code, message: &str) -> Error {
    Error::from_status(call, "http://a:2379", Status::new(code, message))
}

#[test]
fn a_sentence_of_etcds_becomes_its_cause_whatever_its_code() {
    use Call::{AddMember, MoveLeader, Ping, Put, RemoveMember};
    let table = [
        (Ping, "no leader", Cause::NoQuorum),
        (Ping, "request timed out", Cause::NoQuorum),
        (Ping, "leader changed", Cause::LeaderChanged),
        (Ping, "rpc not supported for learner", Cause::RefusedByLearner),
        (Ping, "user name is empty", Cause::Auth(AuthProblem::Required)),
        (MoveLeader, "not leader", Cause::NotLeader),
        (AddMember, "unhealthy cluster", Cause::UnhealthyCluster),
        (AddMember, "Peer URLs already exists", Cause::MemberExists),
        (RemoveMember, "member not found", Cause::MemberNotFound),
        (Put, "corrupt cluster", Cause::Corrupt),
    ];
    for (call, sentence, cause) in table {
        for code in [Code::Unavailable, Code::FailedPrecondition, Code::Unknown] {
            let message = format!("etcdserver: {sentence}");
            assert_eq!(of(call, code, &message).cause, cause, "{message}");
        }
    }
}

#[test]
fn where_etcd_says_nothing_of_its_own_the_code_decides() {
    let table = [
        (Code::PermissionDenied, Cause::Auth(AuthProblem::Denied)),
        (Code::Unauthenticated, Cause::Auth(AuthProblem::Required)),
        (Code::Unimplemented, Cause::Unsupported),
        (Code::DataLoss, Cause::Corrupt),
        (Code::DeadlineExceeded, Cause::Timeout { maybe_done: false }),
    ];
    for (code, cause) in table {
        assert_eq!(of(Call::Ping, code, "in other words").cause, cause, "{code:?}");
    }
    let late = of(Call::Ping, Code::Unknown, "context deadline exceeded").cause;
    assert_eq!(late, Cause::Timeout { maybe_done: false }, "as etcd 3.4 says it");
}

#[test]
fn a_change_without_a_clear_answer_may_have_happened_and_a_read_never() {
    let unclear = [
        (Code::Unavailable, "etcdserver: request timed out"),
        (Code::Unavailable, "etcdserver: request timed out, possibly due to previous leader failure"),
        (Code::Unavailable, "etcdserver: server stopped"),
        (Code::DeadlineExceeded, "context deadline exceeded"),
        (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
        (Code::Unknown, "etcdserver: request timed out, leader transfer took too long"),
        (Code::Internal, "who knows"),
    ];
    for (code, message) in unclear {
        assert!(of(Call::AddMember, code, message).maybe_done(), "{message}");
        assert!(!of(Call::Status, code, message).maybe_done(), "{message}");
    }
    let clear = [
        (Code::Unavailable, "etcdserver: no leader"),
        (Code::Unavailable, "etcdserver: unhealthy cluster"),
        (Code::FailedPrecondition, "etcdserver: Peer URLs already exists"),
        (Code::InvalidArgument, "etcdserver: given member URLs are invalid"),
        (Code::Unimplemented, "unknown method"),
    ];
    for (code, message) in clear {
        assert!(!of(Call::AddMember, code, message).maybe_done(), "{message}");
    }
}

#[test]
fn a_deadline_of_our_own_leaves_a_change_in_doubt_and_a_read_not() {
    for (call, maybe_done) in
        [(Call::AddMember, true), (Call::MoveLeader, true), (Call::Status, false), (Call::Ping, false)]
    {
        let error = Error::timeout(call, "http://a:2379");
        assert_eq!(
            (error.cause.clone(), error.maybe_done()),
            (Cause::Timeout { maybe_done }, maybe_done),
            "{call}"
        );
    }
}

#[test]
fn an_error_says_what_was_attempted_at_whom_and_keeps_its_source() {
    let error = of(Call::AddMember, Code::Unavailable, "etcdserver: request timed out");
    assert_eq!(
        error.to_string(),
        "adding a member at http://a:2379: no answer in time; it may have happened all the same"
    );
    assert!(std::error::Error::source(&error).is_some());
}
