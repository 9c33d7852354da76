use std::io;

use super::*;
use crate::{
    alert::Notice,
    notify::{
        Verdict,
        test_support::{mk_alert, mk_changed, mk_fired, mk_member, mk_resolved},
    },
    testing::Captured,
};

fn shown(notice: &Notice, style: Style) -> String {
    render(&Message::of(notice), style).unwrap()
}

#[test]
fn people_read_what_is_wrong_and_for_how_long() {
    let mut many = mk_fired("api");
    many.alert.members = (0..40)
        .map(|n| mk_member(&format!("api-6c5-{n}")))
        .collect();
    let mut unseen = Message::of(&mk_resolved("db"));
    unseen.event = Event::FiredAndResolved(Resolution::Deleted);
    unseen.transitions = 2;
    let mut changed = Message::of(&mk_changed("web"));
    changed.stale = vec![Standing::from(&mk_alert("web", Severity::Warning))];
    let all = [
        shown(&mk_fired("web"), Style::Plain),
        render(&changed, Style::Plain).unwrap(),
        shown(&mk_resolved("web"), Style::Plain),
        shown(&many, Style::Plain),
        render(&unseen, Style::Plain).unwrap(),
    ]
    .concat();
    insta::assert_snapshot!(all);
}

#[test]
fn colour_adds_nothing_but_colour() {
    for notice in [mk_fired("web"), mk_changed("web"), mk_resolved("web")] {
        let mut text = shown(&notice, Style::Colour);
        assert!(text.contains('\x1b'));
        for code in [BOLD, DIM, RED, GREEN, YELLOW, BLUE, RESET] {
            text = text.replace(code, "");
        }
        assert_eq!(text, shown(&notice, Style::Plain));
    }
}

#[test]
fn programs_read_one_object_a_line() {
    let all = [mk_fired("web"), mk_changed("web"), mk_resolved("web")]
        .map(|notice| shown(&notice, Style::Json))
        .concat();
    assert_eq!(all.lines().count(), 3);
    for line in all.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn text_from_the_cluster_cannot_command_the_terminal() {
    let mut notice = mk_fired("web");
    let evil = "\x1b[2J\x1b]0;owned\x07\r\n● CRITICAL faked\u{9b}1A\u{202e}";
    notice.alert.annotations.set("summary", evil);
    notice.alert.reason = evil.into();
    notice.alert.labels.set("cluster", evil);
    notice.alert.labels.set("container", evil);
    notice.alert.members[0].object.name = evil.into();
    let text = shown(&notice, Style::Plain);
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
    assert!(!text.contains('\u{202e}'));
    assert_eq!(
        text.lines().count(),
        shown(&mk_fired("web"), Style::Plain).lines().count(),
        "no line is faked"
    );
    // JSON escapes control characters by itself.
    let line = shown(&notice, Style::Json);
    assert!(!line.trim_end().contains(|c: char| c.is_ascii_control()));
}

#[tokio::test]
async fn messages_go_to_the_stream() {
    let stream = Captured::default();
    let stdout = Stdout::new(Style::Json, stream.clone());
    let message = Message::of(&mk_fired("web"));
    stdout.send(&message).await.unwrap();
    assert_eq!(stream.text(), render(&message, Style::Json).unwrap());
}

/// A stream that fails.
struct Failing(io::ErrorKind);

impl Write for Failing {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_closed_pipe_is_an_error() {
    for (kind, verdict) in [
        (io::ErrorKind::BrokenPipe, Verdict::Permanent),
        (io::ErrorKind::StorageFull, Verdict::Retry { after: None }),
    ] {
        let stdout = Stdout::new(Style::Plain, Failing(kind));
        let error = stdout
            .send(&Message::of(&mk_fired("web")))
            .await
            .unwrap_err();
        assert_eq!(error.verdict, verdict);
        assert!(error.to_string().starts_with("cannot write: "), "{error}");
    }
}

/// A stream on which a write does not end before the test does.
struct Stuck {
    begun: tokio::sync::mpsc::UnboundedSender<()>,
    end: std::sync::mpsc::Receiver<()>,
}

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.begun.send(());
        // Until its sender is gone.
        let _ = self.end.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_write_that_blocks_is_waited_for_by_itself_only() {
    let (begun, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
    let (ends, end) = std::sync::mpsc::channel();
    let stdout = Stdout::new(Style::Plain, Stuck { begun, end });
    let message = Message::of(&mk_fired("web"));
    let mut first = Box::pin(stdout.send(&message));
    assert!(futures::poll!(&mut first).is_pending());
    has_begun.recv().await.unwrap();
    // It is given up, but goes on in its own thread. No second thread waits behind it.
    drop(first);
    let error = stdout.send(&message).await.unwrap_err();
    assert_eq!(error.verdict, Verdict::Retry { after: None });
    drop(ends);
}

#[test]
fn a_subject_without_a_namespace_has_no_slash() {
    let mut alert = mk_alert("web", Severity::Info);
    alert.labels.set("container", "");
    alert.subject.namespace = "".into();
    alert.subject.kind = "Node".into();
    assert_eq!(subject(&alert), "Node web");
}
