//! FAKES: etcd's RPC, as one member answers it to one operator.

use std::{future::pending, time::Duration};

use etcd_admin::rpc::{self, cluster_server::Cluster, kv_server::Kv, maintenance_server::Maintenance};
use futures::stream::Empty;
use tokio::time::sleep;
use tonic::{Code, Request, Response, Status};

use super::{Change, Consensus, Entry, Etcd, Judge, Process, Refused, consensus::Up, digest, minor_of};
use crate::wire::{Wire, Write};

/// How long etcd itself waits for a quorum.
const PATIENCE: Duration = Duration::from_secs(7);

/// From which minor on members tell in which form their data is.
const TELLS_MORE: &str = "3.6";

/// How far a learner is that comes no further.
const BEHIND: u64 = 5;

type Answer<T> = Result<Response<T>, Status>;

/// One member, as one operator reaches it.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) etcd: Etcd,
    pub(super) address: String,
    pub(super) wire: Wire,
    pub(super) judge: Judge,
}

/// What a request waits for in vain.
enum Missing {
    /// The process answers nobody yet, or is gone.
    Everything,
    /// There is no quorum.
    Quorum,
}

impl Node {
    fn look<T>(
        &self,
        act: impl FnOnce(&mut Consensus, &Process, &Up) -> Result<T, Refused>,
    ) -> Result<Result<T, Status>, Missing> {
        let mut world = self.etcd.lock();
        {
            let world = &mut *world;
            let process = world
                .processes
                .get(&self.address)
                .filter(|p| p.serves)
                .cloned()
                .ok_or(Missing::Everything)?;
            let up = world.up(process.log.cluster);
            let cluster = world.clusters.get_mut(&process.log.cluster).ok_or(Missing::Everything)?;
            if world.waiting && cluster.members.get(&process.log.member).is_some_and(|entry| entry.learner) {
                return Err(Missing::Everything);
            }
            match act(cluster, &process, &up) {
                Ok(done) => Ok(Ok(done)),
                Err(Refused::Because(code, words)) => Ok(Err(Status::new(code, words))),
                Err(Refused::NoQuorum) => Err(Missing::Quorum),
            }
        }
    }

    /// Answers, as far as there is somebody to answer.
    async fn answer<T>(&self, looked: Result<Result<T, Status>, Missing>) -> Answer<T> {
        self.wire.opens().await;
        match looked {
            Ok(answer) => answer.map(Response::new),
            Err(Missing::Everything) => pending().await,
            Err(Missing::Quorum) => {
                sleep(PATIENCE).await;
                Err(Status::unavailable("etcdserver: request timed out"))
            }
        }
    }

    /// Sends a change over the operator's wire.
    async fn write<T: Send + 'static>(
        &self,
        change: Change,
        act: impl Fn(&mut Consensus, &Process, &Up) -> Result<T, Refused> + Clone + Send + 'static,
    ) -> Answer<T> {
        let write = Write {
            who: String::new(),
            what: change.what().to_owned(),
            object: change.object(),
            contended: true,
            watched: false,
            number: Some(0),
            nth: 0,
            outcome: None,
        };
        let (node, faster) = (self.clone(), self.clone());
        let theirs = act.clone();
        // Somebody else asks for the very same a moment earlier.
        let disturb = move |_| {
            drop(faster.look(theirs));
            faster.etcd.change(|_| ());
        };
        let land = move || {
            let broken = (node.judge)(&change);
            let looked = node.look(|cluster, process, up| {
                voter(cluster, process)?;
                act(cluster, process, up)
            });
            node.etcd.change(|_| ());
            if let Ok(Ok(_)) = looked {
                node.wire.record().note(broken);
            }
            let words = match &looked {
                Ok(Ok(_)) => "done".to_owned(),
                Ok(Err(status)) => status.message().to_owned(),
                Err(_) => "no quorum".to_owned(),
            };
            (looked, words)
        };
        let looked = self.wire.send(write, disturb, land).await;
        self.answer(looked).await
    }
}

/// Learners answer next to nothing.
fn voter(cluster: &Consensus, process: &Process) -> Result<(), Refused> {
    match cluster.members.get(&process.log.member) {
        Some(entry) if entry.learner => {
            Err(Refused::Because(Code::Unavailable, "etcdserver: rpc not supported for learner"))
        }
        _ => Ok(()),
    }
}

fn through_quorum(cluster: &Consensus) -> Result<(), Refused> {
    if cluster.leader.is_some() { Ok(()) } else { Err(Refused::NoQuorum) }
}

fn header(cluster: &Consensus, process: &Process) -> rpc::ResponseHeader {
    rpc::ResponseHeader {
        cluster_id: process.log.cluster,
        member_id: process.log.member,
        revision: cluster.revision,
        raft_term: cluster.term,
    }
}

fn listed(entry: &Entry) -> rpc::Member {
    rpc::Member {
        id: entry.id,
        name: entry.name.clone().unwrap_or_default(),
        peer_urls: entry.peer_urls.clone(),
        client_urls: entry.client_urls.clone(),
        is_learner: entry.learner,
    }
}

fn members(cluster: &Consensus, process: &Process) -> rpc::MembersResponse {
    let members = cluster.members.values().map(listed).collect();
    rpc::MembersResponse { header: Some(header(cluster, process)), members }
}

#[tonic::async_trait]
impl Kv for Node {
    async fn range(&self, request: Request<rpc::RangeRequest>) -> Answer<rpc::RangeResponse> {
        let request = request.into_inner();
        let looked = self.look(|cluster, process, _| {
            if !request.serializable {
                voter(cluster, process)?;
                through_quorum(cluster)?;
            }
            let pair = cluster.data.get(&request.key).filter(|_| !request.count_only);
            let kvs = pair.map(|value| rpc::KeyValue {
                key: request.key.clone(),
                value: value.clone(),
                ..Default::default()
            });
            let header = Some(header(cluster, process));
            Ok(rpc::RangeResponse { header, kvs: kvs.into_iter().collect(), ..Default::default() })
        });
        self.answer(looked).await
    }

    async fn put(&self, request: Request<rpc::PutRequest>) -> Answer<rpc::Done> {
        let request = request.into_inner();
        let looked = self.look(|cluster, process, _| {
            voter(cluster, process)?;
            through_quorum(cluster)?;
            cluster.revision += 1;
            cluster.index += 1;
            cluster.data.insert(request.key.clone(), request.value.clone());
            Ok(rpc::Done { header: Some(header(cluster, process)) })
        });
        self.answer(looked).await
    }

    async fn compact(&self, _request: Request<rpc::CompactRequest>) -> Answer<rpc::Done> {
        Err(Status::unimplemented("not part of this etcd"))
    }
}

#[tonic::async_trait]
impl Cluster for Node {
    async fn member_add(&self, request: Request<rpc::MemberAddRequest>) -> Answer<rpc::MemberAddResponse> {
        let request = request.into_inner();
        let urls = request.peer_urls.join(",");
        let fresh = self.etcd.change(|world| {
            world.added += 1;
            world.added
        });
        let id = digest(&["added", &urls, &fresh.to_string()]);
        let change = Change::Add { peer_urls: request.peer_urls.clone(), learner: request.is_learner };
        self.write(change, move |cluster, process, up| {
            let entry = cluster.add(process.log.member, id, &request.peer_urls, request.is_learner, up)?;
            let all = members(cluster, process);
            Ok(rpc::MemberAddResponse {
                header: all.header,
                member: Some(listed(&entry)),
                members: all.members,
            })
        })
        .await
    }

    async fn member_remove(&self, request: Request<rpc::MemberIdRequest>) -> Answer<rpc::MembersResponse> {
        let id = request.into_inner().id;
        self.write(Change::Remove(id), move |cluster, process, up| {
            cluster.remove(process.log.member, id, up)?;
            Ok(members(cluster, process))
        })
        .await
    }

    async fn member_update(&self, _: Request<rpc::MemberUpdateRequest>) -> Answer<rpc::MembersResponse> {
        Err(Status::unimplemented("not part of this etcd"))
    }

    async fn member_list(&self, request: Request<rpc::MemberListRequest>) -> Answer<rpc::MembersResponse> {
        let linearizable = request.into_inner().linearizable;
        let looked = self.look(|cluster, process, _| {
            voter(cluster, process)?;
            if linearizable {
                through_quorum(cluster)?;
            }
            Ok(members(cluster, process))
        });
        self.answer(looked).await
    }

    async fn member_promote(&self, request: Request<rpc::MemberIdRequest>) -> Answer<rpc::MembersResponse> {
        let id = request.into_inner().id;
        let lagging = self.etcd.lock().lagging;
        self.write(Change::Promote(id), move |cluster, process, up| {
            cluster.promote(id, up, lagging)?;
            Ok(members(cluster, process))
        })
        .await
    }
}

#[tonic::async_trait]
impl Maintenance for Node {
    type SnapshotStream = Empty<Result<rpc::SnapshotChunk, Status>>;

    async fn alarm(&self, _request: Request<rpc::AlarmRequest>) -> Answer<rpc::AlarmResponse> {
        let looked = self.look(|cluster, process, _| {
            voter(cluster, process)?;
            through_quorum(cluster)?;
            // Also a question about alarms is an entry in the log.
            cluster.index += 1;
            Ok(rpc::AlarmResponse { header: Some(header(cluster, process)), alarms: Vec::new() })
        });
        if let Ok(Ok(_)) = looked {
            self.etcd.change(super::World::hear);
        }
        self.answer(looked).await
    }

    async fn status(&self, _request: Request<rpc::Empty>) -> Answer<rpc::StatusResponse> {
        let lagging = self.etcd.lock().lagging;
        self.etcd.lock().agree_on_versions();
        let looked = self.look(|cluster, process, _| {
            // From 3.6 on they tell in which form their data is, and where they may go down to.
            let tells = minor_of(&process.version).is_some_and(|minor| minor >= TELLS_MORE);
            let form = cluster.version.as_ref().filter(|_| tells);
            let down = cluster.downgrade.as_ref().filter(|_| tells);
            let learner = cluster.members.get(&process.log.member).is_some_and(|entry| entry.learner);
            let applied = if learner && lagging { BEHIND } else { cluster.index };
            Ok(rpc::StatusResponse {
                header: Some(header(cluster, process)),
                version: process.version.clone(),
                leader: cluster.leader.unwrap_or_default(),
                raft_index: cluster.index,
                raft_term: cluster.term,
                raft_applied_index: applied,
                is_learner: learner,
                db_size: 20480,
                db_size_in_use: 20480,
                storage_version: form.map(|minor| format!("{minor}.0")).unwrap_or_default(),
                downgrade_info: tells.then(|| rpc::DowngradeInfo {
                    enabled: down.is_some(),
                    target_version: down.map(|minor| format!("{minor}.0")).unwrap_or_default(),
                }),
                ..Default::default()
            })
        });
        self.answer(looked).await
    }

    async fn defragment(&self, _request: Request<rpc::Empty>) -> Answer<rpc::Done> {
        Err(Status::unimplemented("not part of this etcd"))
    }

    async fn hash_kv(&self, _request: Request<rpc::HashKvRequest>) -> Answer<rpc::HashKvResponse> {
        Err(Status::unimplemented("not part of this etcd"))
    }

    async fn snapshot(&self, _request: Request<rpc::Empty>) -> Answer<Self::SnapshotStream> {
        Err(Status::unimplemented("not part of this etcd"))
    }

    async fn move_leader(&self, request: Request<rpc::MemberIdRequest>) -> Answer<rpc::Done> {
        let id = request.into_inner().id;
        self.write(Change::MoveLeader(id), move |cluster, process, up| {
            through_quorum(cluster)?;
            if cluster.leader != Some(process.log.member) {
                return Err(Refused::Because(Code::FailedPrecondition, "etcdserver: not leader"));
            }
            let votes = cluster.members.get(&id).is_some_and(|entry| !entry.learner);
            if !votes {
                return Err(Refused::Because(Code::FailedPrecondition, "etcdserver: bad leader transferee"));
            }
            if !up.contains_key(&id) {
                return Err(Refused::NoQuorum);
            }
            if cluster.leader != Some(id) {
                (cluster.leader, cluster.term) = (Some(id), cluster.term + 1);
            }
            Ok(rpc::Done { header: Some(header(cluster, process)) })
        })
        .await
    }

    async fn downgrade(&self, request: Request<rpc::DowngradeRequest>) -> Answer<rpc::DowngradeResponse> {
        let request = request.into_inner();
        let target = request.version.clone();
        let answer = |cluster: &Consensus, process: &Process| rpc::DowngradeResponse {
            header: Some(header(cluster, process)),
            version: cluster.version.as_ref().map(|minor| format!("{minor}.0")).unwrap_or_default(),
        };
        let (change, to) = match request.action() {
            rpc::DowngradeAction::Validate => {
                let looked = self.look(|cluster, process, _| {
                    voter(cluster, process)?;
                    cluster.may_go_down(&target)?;
                    Ok(answer(cluster, process))
                });
                return self.answer(looked).await;
            }
            rpc::DowngradeAction::Enable => (Change::AllowDowngrade(target.clone()), Some(target)),
            rpc::DowngradeAction::Cancel => (Change::CancelDowngrade, None),
        };
        self.write(change, move |cluster, process, _| {
            cluster.set_downgrade(to.as_deref())?;
            Ok(answer(cluster, process))
        })
        .await
    }
}
