//! FOR PROOF: how a pod's container starts: the launcher's own judgement, then etcd.

use launch::{
    EtcdVersion, Intent, LaunchOrder, Seal,
    guard::{self, Found, FoundSeal},
};

use crate::{
    cast::{CastError, PodId},
    laws::Law,
    state::{Data, Mark, Pod, Service, Stage, State},
};

/// The launcher's judgement on every pair of order and volumes there is here.
pub(crate) struct Guard {
    starts: Vec<(Data, bool, bool)>,
}

const ALL_DATA: [Data; 5] = [Data::Fresh, Data::Sealed, Data::Log, Data::DataLost, Data::AllLost];

impl Guard {
    pub(crate) fn new(version: EtcdVersion) -> Result<Self, CastError> {
        let seal = Seal { member: "example-bcdfghjklm".parse()?, token: "t".parse()? };
        let mut starts = Vec::new();
        for data in ALL_DATA {
            for withdrawn in [false, true] {
                let order = LaunchOrder {
                    seal: seal.clone(),
                    version,
                    intent: if withdrawn { Intent::Restart } else { Intent::NewCluster },
                    argv: Vec::new(),
                };
                starts.push((data, withdrawn, guard::judge(&order, &found(data, &seal)).is_ok()));
            }
        }
        Ok(Self { starts })
    }

    /// Whether the launcher starts etcd on this data, with or without the permission to find none.
    pub(crate) fn admits(&self, data: Data, withdrawn: bool) -> bool {
        self.starts.contains(&(data, withdrawn, true))
    }
}

/// What the launcher finds.
fn found(data: Data, seal: &Seal) -> Found {
    let own = || FoundSeal::Of(seal.clone());
    let (wal, in_data, on_marker) = match data {
        Data::Fresh | Data::AllLost => (false, FoundSeal::Absent, FoundSeal::Absent),
        Data::Sealed => (false, own(), own()),
        Data::Log => (true, own(), own()),
        Data::DataLost => (false, FoundSeal::Absent, own()),
    };
    Found { wal, in_member: in_data.clone(), in_data, on_marker }
}

/// Whether a pod's container can be started.
pub(crate) fn can_start(pod: Pod) -> bool {
    matches!(pod.stage, Stage::Pending | Stage::Down | Stage::Refused)
        && !pod.has(Mark::NodeLost)
        && !pod.has(Mark::Deleting)
}

/// Starts a pod's container.
pub(crate) fn start(guard: &Guard, state: &State, id: PodId) -> Result<Pod, Law> {
    let mut pod = state.pod(id).with(Mark::Ran);
    if matches!(pod.stage, Stage::Down | Stage::Refused) {
        pod.restarts = (pod.restarts + 1).min(2);
    }
    if !guard.admits(pod.data, pod.has(Mark::Withdrawn)) {
        pod.stage = Stage::Refused;
        return Ok(pod);
    }
    if pod.data == Data::Log {
        pod.stage = Stage::Up;
        return Ok(pod);
    }
    // Without its own and its peers' names etcd exits before it has written anything.
    if state.peer != Service::Selects(Some(id.attempt())) {
        (pod.stage, pod.data) = (Stage::Down, Data::Sealed);
        return Ok(pod);
    }
    // Before the cluster has formed, losing both volumes at once is beyond what the guards promise. Where a client's early write was the reason to
    // call it formed, that goes for those who had not been heard of yet: the permission goes with the first answer.
    let formed = state.resource.birth.is_some_and(|birth| birth.formed && birth.attempt == id.attempt());
    let promised = formed && state.written & id.attempt().bit() == 0;
    if pod.has(Mark::Started) && (promised || pod.data == Data::DataLost) {
        return Err(Law::Amnesia);
    }
    (pod.stage, pod.data) = (Stage::Up, Data::Log);
    Ok(pod.with(Mark::Started))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cast::{AttemptId, Cast, INCARNATIONS, Who},
        state::BirthRecord,
    };

    /// How a pod with this data starts in a world whose names resolve.
    fn outcome(data: Data, withdrawn: bool, formed: bool) -> Result<Stage, Law> {
        let guard = Guard::new(Cast::new(INCARNATIONS).unwrap().wanted.version).unwrap();
        let attempt = AttemptId::new(1, Who::A).unwrap();
        let id = attempt.pods().next().unwrap();
        let mut state = State::new();
        state.resource.birth = Some(BirthRecord { attempt, formed });
        state.peer = Service::Selects(Some(attempt));
        let mut pod = Pod { stage: Stage::Down, data, ..Pod::default() };
        if withdrawn {
            pod = pod.with(Mark::Withdrawn);
        }
        if !matches!(data, Data::Fresh | Data::Sealed) {
            pod = pod.with(Mark::Started);
        }
        state.set_pod(id, pod);
        start(&guard, &state, id).map(|pod| pod.stage)
    }

    #[test]
    fn each_guard_alone_refuses_an_empty_start_and_without_both_it_is_amnesia() {
        let table = [
            (Data::Fresh, false, Ok(Stage::Up)),
            (Data::Sealed, false, Ok(Stage::Up)),
            (Data::Log, false, Ok(Stage::Up)),
            (Data::Log, true, Ok(Stage::Up)),
            (Data::DataLost, false, Ok(Stage::Refused)),
            (Data::DataLost, true, Ok(Stage::Refused)),
            (Data::AllLost, true, Ok(Stage::Refused)),
            (Data::AllLost, false, Err(Law::Amnesia)),
        ];
        for (data, withdrawn, expected) in table {
            assert_eq!(outcome(data, withdrawn, true), expected, "{data:?} {withdrawn}");
        }
        assert_eq!(outcome(Data::AllLost, false, false), Ok(Stage::Up), "nobody had written yet");
    }
}
