use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use rstest::rstest;

use super::collect_limited;

#[rstest]
#[case::kept(2, 2, None)]
#[case::read_to_its_end_and_refused(10, 10, Some(413))]
#[case::given_up(100, 17, Some(413))]
#[tokio::test]
async fn a_body_is_read_to_its_end_unless_it_is_far_too_large(
    #[case] megabytes: usize,
    #[case] taken: usize,
    #[case] refused: Option<u16>,
) {
    let counter = AtomicUsize::new(0);
    let chunks = futures::stream::iter((0..megabytes).map(|_| {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![b'x'; 1 << 20])))
    }));
    let answer = collect_limited(StreamBody::new(chunks)).await;
    assert_eq!(answer.as_ref().err().map(crate::status_error::StatusError::code), refused);
    assert_eq!(answer.map_or(0, |body| body.len()), if refused.is_none() { megabytes << 20 } else { 0 });
    assert_eq!(counter.load(Ordering::SeqCst), taken);
}
