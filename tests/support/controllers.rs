//! What works on a control plane from outside of it: its controllers, and kubectl.

use std::{
    ffi::OsString,
    fmt::Write as _,
    process::{Command, Output, Stdio},
};

use super::{
    ControlPlane,
    binaries::Binary,
    control_plane::{ADMIN, Server},
};

/// The controllers that tests need. Nobody plays the others: there is no node that one could find unreachable, and no volume.
const CONTROLLERS: &str = "statefulset-controller";

/// A running controller manager. It ends with this, and also when the test process is killed.
#[derive(Debug)]
pub struct ControllerManager(Server);

impl ControllerManager {
    /// Starts one. It works as soon as it has seen what there is.
    pub fn start(plane: &ControlPlane) -> Self {
        let mut command = Binary::ControllerManager.command();
        command.extend(
            [
                format!("--kubeconfig={}", plane.kubeconfig(ADMIN).display()),
                format!("--controllers={CONTROLLERS}"),
                "--leader-elect=false".to_owned(),
                // No port of its own: nobody asks it anything.
                "--secure-port=0".to_owned(),
            ]
            .map(OsString::from),
        );
        Self(Server::start(
            &command,
            plane.folder().join("controller-manager.log"),
        ))
    }

    /// Panics if it has ended.
    pub fn assert_running(&mut self) {
        self.0.assert_running();
    }
}

impl ControlPlane {
    /// Runs kubectl as the user that may do everything, and returns what it wrote; panics with it if it fails.
    pub async fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.try_kubectl(arguments).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "kubectl {arguments:?} ended with {}:\n{}",
            output.status,
            text(&output.stderr)
        );
        let mut all = text(&output.stdout);
        write!(all, "{}", text(&output.stderr)).unwrap();
        all
    }

    /// Runs kubectl as the user that may do everything, which may fail.
    pub async fn try_kubectl(&self, arguments: &[&str]) -> Output {
        let words = Binary::Kubectl.command();
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .arg(format!("--kubeconfig={}", self.kubeconfig(ADMIN).display()))
            .args(arguments)
            .env_clear()
            // Where it keeps what the API server offers.
            .env("HOME", self.folder())
            .stdin(Stdio::null());
        // Meanwhile the runtime of the test goes on.
        let run = tokio::task::spawn_blocking(move || command.output());
        run.await.unwrap().unwrap()
    }
}
