//! OBSERVE's and ACT's courtesy: when the API server says that it has too much to do, and when to come back, no round begins before.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::http::{HeaderMap, Request, StatusCode, header::RETRY_AFTER};
use kube::{Client, client::Body};
use tokio::time::Instant;
use tower::service_fn;

/// The longest time that is believed.
const LONGEST: Duration = Duration::from_secs(30);

/// Until when the API server wants to be left alone. All clones are one.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    until: Arc<Mutex<Option<Instant>>>,
}

impl Busy {
    /// The same client; what its answers say of coming back is heard. It is a header, which the errors of the client do not hold.
    #[must_use]
    pub fn listen(&self, client: Client) -> Client {
        let (namespace, busy) = (client.default_namespace().to_owned(), self.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (client, busy) = (client.clone(), busy.clone());
            async move {
                // A watch that has to wait, as each does while its kind's cache is being filled, says nothing of other requests.
                let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
                let answer = client.send(request).await?;
                if !watches {
                    busy.hear(answer.status(), answer.headers());
                }
                Ok::<_, kube::Error>(answer)
            }
        });
        Client::new(service, namespace)
    }

    /// For how long no round should begin, if that is so.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.map(|until| until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    fn hear(&self, status: StatusCode, headers: &HeaderMap) {
        if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            return;
        }
        let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let Some(pause) = seconds.map(Duration::from_secs) else { return };
        let until = Instant::now() + pause.min(LONGEST);
        let mut known = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *known = (*known).max(Some(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_who_says_when_to_come_back_is_left_alone_and_not_for_longer_than_is_believed() {
        let table = [
            (429, "7", Some(7)),
            (503, "7", Some(7)),
            (429, "86400", Some(30)),
            (429, "tomorrow", None),
            (200, "7", None),
            (500, "7", None),
        ];
        for (code, value, seconds) in table {
            let busy = Busy::default();
            let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
            busy.hear(StatusCode::from_u16(code).unwrap(), &headers);
            assert_eq!(busy.left(), seconds.map(Duration::from_secs), "{code} {value}");
        }
        let busy = Busy::default();
        for seconds in ["7", "2"] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, seconds.parse().unwrap())]);
            busy.hear(StatusCode::TOO_MANY_REQUESTS, &headers);
        }
        assert_eq!(busy.left(), Some(Duration::from_secs(7)), "the later one counts");
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(busy.left(), None);
    }
}
