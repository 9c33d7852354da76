//! A control plane of one test's own, or shared by several: etcd and a kube-apiserver on free ports, in a folder that goes with it.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use http::Method;
use k8s_openapi::ByteString;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use super::{PATIENCE, Sketch, binaries::Binary, eventually, free_port, say, show_on_failure};

/// The user that may do everything.
pub(super) const ADMIN: &str = "admin";
/// The user that the program under test is: it may list and watch Pods.
pub const ALERTKUBE: &str = "alertkube";
/// A user that may do nothing, until a test grants it something.
pub const OUTSIDER: &str = "outsider";

/// The verbs that are needed on Leases and on `ConfigMap`s.
pub const EVERYTHING: &[&str] = &["get", "list", "watch", "create", "update", "delete"];

/// Where roles and their bindings are.
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A running etcd and API server. They end with it, and also when the test process is killed.
#[derive(Debug)]
pub struct ControlPlane {
    folder: PathBuf,
    etcd_url: String,
    etcd: Option<Server>,
    port: u16,
    apiserver: Option<Server>,
}

impl ControlPlane {
    /// Starts one, and returns when its API server is ready.
    pub async fn start() -> Self {
        let mut command = Binary::Etcd.command();
        let folder = mk_folder();
        let (client, peer) = (loopback(free_port()), loopback(free_port()));
        command.extend(
            [
                format!("--data-dir={}", folder.join("etcd").display()),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster=default={peer}"),
                // Nobody will miss this data after a power cut.
                "--unsafe-no-fsync".to_owned(),
            ]
            .map(OsString::from),
        );
        let etcd = Server::start(&command, folder.join("etcd.log"));

        fs::write(folder.join("tokens.csv"), tokens()).unwrap();
        fs::write(folder.join("audit.json"), audit_policy().to_string()).unwrap();
        write_service_account_keys(&folder);
        let mut this = Self {
            folder,
            etcd_url: client,
            etcd: Some(etcd),
            port: free_port(),
            apiserver: None,
        };
        this.start_apiserver().await;
        this.allow(ALERTKUBE).await;
        for user in [ALERTKUBE, OUTSIDER] {
            this.allow_to_remember(user).await;
        }
        this
    }

    /// One that all tests of this process use that run at the same time. Each of them works in a namespace of its own.
    pub async fn shared() -> Arc<Self> {
        static SHARED: tokio::sync::Mutex<Weak<ControlPlane>> =
            tokio::sync::Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(running) = shared.upgrade() {
            return running;
        }
        let started = Arc::new(Self::start().await);
        *shared = Arc::downgrade(&started);
        started
    }

    /// Starts the API server (again), on the same port and the same data, and returns when it is ready.
    pub async fn start_apiserver(&mut self) {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let mut command = Binary::ApiServer.command();
        command.extend(
            [
                format!("--etcd-servers={}", self.etcd_url),
                format!("--secure-port={}", self.port),
                "--bind-address=127.0.0.1".to_owned(),
                // A certificate is made there at the first start, and used again at the next.
                format!("--cert-dir={}", file("certificates")),
                "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                format!("--service-account-key-file={}", file("accounts.pub")),
                format!("--service-account-signing-key-file={}", file("accounts.key")),
                "--authorization-mode=RBAC".to_owned(),
                format!("--token-auth-file={}", file("tokens.csv")),
                format!("--audit-policy-file={}", file("audit.json")),
                format!("--audit-log-path={}", file("audit.log")),
                // They need controllers, or change pods that a test wants as it made them.
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,DefaultStorageClass,Priority"
                    .to_owned(),
            ]
            .map(OsString::from),
        );
        let mut server = Server::start(&command, self.folder.join("apiserver.log"));
        eventually("the API server to be ready", PATIENCE, async || {
            server.assert_running();
            let request = http::Request::get("/readyz").body(Vec::new()).unwrap();
            // Anew each time: until the API server has written its certificate, a client is none or trusts nobody.
            let answer = self.try_client().await?.request_text(request).await;
            answer.is_ok_and(|text| text == "ok").then_some(())
        })
        .await;
        self.apiserver = Some(server);
    }

    /// Kills the API server: no goodbye to whoever is connected.
    pub fn kill_apiserver(&mut self) {
        drop(self.apiserver.take());
    }

    /// Makes etcd forget every version of every object but the newest. An API server that is started after this can serve no watch that goes
    /// on from an older version: it answers 410 Gone.
    pub async fn compact(&self) {
        let status = self.ask_etcd("maintenance/status", json!({})).await;
        let newest = &status["header"]["revision"];
        let compaction = json!({ "revision": newest, "physical": true });
        self.ask_etcd("kv/compaction", compaction).await;
    }

    /// Puts pods straight into etcd, as an API server stores them: thousands in a second, and with times that no API server would let anybody
    /// choose (`creationTimestamp`, `deletionTimestamp`). From there they come to watches as all others do.
    pub async fn store(&self, pods: &[Sketch], namespace: &str) {
        let base64 = |text: String| json!(ByteString(text.into_bytes()));
        // etcd allows 128 operations in a transaction.
        for chunk in pods.chunks(100) {
            let puts: Vec<_> = chunk
                .iter()
                .map(|pod| {
                    let key = format!("/registry/pods/{namespace}/{}", pod.name());
                    let value = pod.as_stored(namespace).to_string();
                    json!({ "requestPut": { "key": base64(key), "value": base64(value) } })
                })
                .collect();
            self.ask_etcd("kv/txn", json!({ "success": puts })).await;
        }
    }

    /// Calls etcd by its JSON gateway.
    async fn ask_etcd(&self, path: &str, body: Value) -> Value {
        let url = format!("{}/v3/{path}", self.etcd_url);
        let request = plain_http().post(url).body(body.to_string());
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{path}: etcd answered {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Where its files are. They go with it.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where its API server listens.
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// The certificate by which its API server is known.
    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.join("certificates/apiserver.crt")
    }

    /// Writes a kubeconfig for a user, and returns its path.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        let kubeconfig = kubeconfig(self.address(), &self.certificate(), &token(user), "default");
        let path = self.folder.join(format!("kubeconfig-{user}"));
        // Whole or not at all: tests that share this control plane write it while programs read it.
        let unfinished = self.folder.join(format!(
            "kubeconfig-{user}.{:?}",
            std::thread::current().id()
        ));
        fs::write(&unfinished, kubeconfig).unwrap();
        fs::rename(&unfinished, &path).unwrap();
        path
    }

    /// A client that may do everything.
    pub async fn client(&self) -> Client {
        self.try_client()
            .await
            .expect("a client for the API server")
    }

    async fn try_client(&self) -> Option<Client> {
        client_of(&self.kubeconfig(ADMIN)).await
    }

    /// Grants a user to list and watch resources of the core group, in all namespaces.
    pub async fn allow(&self, user: &str) {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": user },
            "rules": watching(),
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": user },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
        });
        let client = self.client().await;
        for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
            send(&client, Method::POST, &format!("{RBAC}/{plural}"), &object).await;
        }
    }

    /// Grants a user to keep Leases and states in the namespace `default`.
    async fn allow_to_remember(&self, user: &str) {
        let name = format!("{user}-remembers");
        let role = role_to_remember(user, EVERYTHING, EVERYTHING);
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
        });
        let client = self.client().await;
        for (plural, object) in [("roles", role), ("rolebindings", binding)] {
            let path = format!("{RBAC}/namespaces/default/{plural}");
            send(&client, Method::POST, &path, &object).await;
        }
    }

    /// Changes what a user may do with Leases, and with `ConfigMap`s, in the namespace `default`. What is open stays open.
    pub async fn allow_only(&self, user: &str, leases: &[&str], config_maps: &[&str]) {
        let role = role_to_remember(user, leases, config_maps);
        let path = format!("{RBAC}/namespaces/default/roles/{user}-remembers");
        send(&self.client().await, Method::PUT, &path, &role).await;
    }

    /// Takes back what was granted to a user. A watch that is open stays open: the API server asks only when it starts.
    pub async fn forbid(&self, user: &str) {
        let client = self.client().await;
        for plural in ["clusterrolebindings", "clusterroles"] {
            let path = format!("{RBAC}/{plural}/{user}");
            send(&client, Method::DELETE, &path, &json!({})).await;
        }
    }

    /// What a user has asked of the API server so far: a verb and a resource each, or a verb and a path where there is no resource.
    pub fn requests_of(&self, user: &str) -> BTreeSet<String> {
        self.audit(user).iter().map(request).collect()
    }

    /// What the API server has not let a user do so far, each request as in [`ControlPlane::requests_of`].
    pub fn refusals_of(&self, user: &str) -> Vec<String> {
        let events = self.audit(user);
        let refused = events
            .iter()
            .filter(|event| event["responseStatus"]["code"] == 403);
        refused.map(request).collect()
    }

    fn audit(&self, user: &str) -> Vec<Value> {
        let log = fs::read_to_string(self.folder.join("audit.log")).unwrap();
        // The last line may be half written.
        log.lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|event| event["user"]["username"] == user)
            .collect()
    }
}

/// The rules of the manifests for what is listed and watched.
fn watching() -> Vec<Value> {
    const RBAC: &str = include_str!("../../manifests/base/rbac.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(RBAC).unwrap();
    let role = objects
        .iter()
        .find(|object| object["kind"] == "ClusterRole")
        .unwrap();
    let rules = role["rules"].as_array().unwrap().iter();
    rules
        .filter(|rule| rule["verbs"] == json!(["list", "watch"]))
        .cloned()
        .collect()
}

/// The resources that the manifests allow to list and watch.
pub fn watched() -> Vec<String> {
    let rules = watching().into_iter();
    rules
        .flat_map(|rule| rule["resources"].as_array().unwrap().clone())
        .map(|resource| resource.as_str().unwrap().to_owned())
        .collect()
}

fn role_to_remember(user: &str, leases: &[&str], config_maps: &[&str]) -> Value {
    let rules: Vec<_> = [
        ("coordination.k8s.io", "leases", leases),
        ("", "configmaps", config_maps),
    ]
    .into_iter()
    // The API server wants verbs in every rule.
    .filter(|(_, _, verbs)| !verbs.is_empty())
    .map(|(group, resource, verbs)| {
        json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs })
    })
    .collect();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "name": format!("{user}-remembers") },
        "rules": rules,
    })
}

/// A request of the audit log, in short.
fn request(event: &Value) -> String {
    let verb = event["verb"].as_str().unwrap_or_default();
    let object = &event["objectRef"]["resource"];
    let what = object.as_str().or_else(|| event["requestURI"].as_str());
    format!("{verb} {}", what.unwrap_or_default())
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.kill_apiserver();
        drop(self.etcd.take());
        if std::thread::panicking() {
            say(format_args!(
                "the control plane's logs are in {}",
                self.folder.display()
            ));
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// The text of a kubeconfig: an address that leads to the API server, the certificate of that, a token, and the namespace of what has none.
pub(super) fn kubeconfig(
    address: SocketAddr,
    certificate: &Path,
    token: &str,
    namespace: &str,
) -> String {
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "test", "cluster": {
            "server": format!("https://{address}"),
            "certificate-authority": certificate,
        }}],
        "users": [{ "name": "test", "user": { "token": token } }],
        "contexts": [{ "name": "test", "context": {
            "cluster": "test", "user": "test", "namespace": namespace,
        }}],
        "current-context": "test",
    });
    kubeconfig.to_string()
}

/// A client by a kubeconfig, unless that is not right (yet).
pub(super) async fn client_of(kubeconfig: &Path) -> Option<Client> {
    install_crypto();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options);
    Client::try_from(config.await.ok()?).ok()
}

/// Sends an object to the API server, and panics unless it is accepted.
pub(super) async fn send(client: &Client, method: Method, path: &str, object: &Value) {
    if let Err(error) = try_send(client, method.clone(), path, object).await {
        panic!("{method} {path}: {error}");
    }
}

/// Sends an object to the API server.
pub(super) async fn try_send(
    client: &Client,
    method: Method,
    path: &str,
    object: &Value,
) -> kube::Result<()> {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(object).unwrap())
        .unwrap();
    client.request_text(request).await.map(|_| ())
}

/// A server process, and the log that it writes.
#[derive(Debug)]
pub(super) struct Server {
    process: Child,
    // While this is open, the server lives.
    lifeline: Option<ChildStdin>,
    log: PathBuf,
}

/// Runs a command until it ends, or until standard input is closed, which kills it. The kernel closes the other end of the pipe however the test process ends,
/// so no server outlives its test. Who ends the whole group of processes by a signal does not end the one that sees to this.
const SUPERVISOR: &str = r#"
    exec 3<&0
    "$@" 3<&- & server=$!
    { trap '' INT TERM HUP; cat <&3 >/dev/null; kill -9 $server 2>/dev/null; } &
    wait $server
"#;

impl Server {
    pub(super) fn start(command: &[OsString], log: PathBuf) -> Self {
        let append = || {
            File::options()
                .create(true)
                .append(true)
                .open(&log)
                .unwrap()
        };
        let mut process = Command::new("sh")
            .args(["-c", SUPERVISOR, "sh"])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(append())
            .stderr(append())
            .spawn()
            .unwrap();
        let lifeline = process.stdin.take();
        Self {
            process,
            lifeline,
            log,
        }
    }

    pub(super) fn assert_running(&mut self) {
        if let Some(status) = self.process.try_wait().unwrap() {
            panic!("a server of the control plane ended with {status}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.process.wait();
        show_on_failure(&self.log);
    }
}

/// The rest of the process needs one TLS implementation to be chosen, once.
fn install_crypto() {
    // An error means that another test was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A client for servers of the tests that speak HTTP without TLS.
pub(super) fn plain_http() -> reqwest::Client {
    install_crypto();
    reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(10))
        .build()
        .unwrap()
}

fn loopback(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// A new folder under `target/`.
fn mk_folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "control-plane-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ));
    // A process of long ago may have had the same id.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn token(user: &str) -> String {
    format!("token-of-{user}")
}

/// The users, as `--token-auth-file` wants them: token, name, id, groups.
fn tokens() -> String {
    [(ADMIN, "system:masters"), (ALERTKUBE, ""), (OUTSIDER, "")]
        .map(|(user, groups)| format!("{},{user},{user},\"{groups}\"\n", token(user)))
        .concat()
}

/// Logs what users do, but for the admin and the API server itself: they would fill the disk.
fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            { "level": "None", "userGroups": ["system:masters"] },
            { "level": "Metadata" },
        ],
    })
}

/// Makes the key pair with which the API server signs tokens of service accounts.
fn write_service_account_keys(folder: &Path) {
    // What comes before the point of a public key on the curve P-256 (RFC 5480, SubjectPublicKeyInfo).
    const P256_PUBLIC_KEY: &[u8] =
        b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let random = SystemRandom::new();
    let private = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, private.as_ref(), &random).unwrap();
    let public = [P256_PUBLIC_KEY, pair.public_key().as_ref()].concat();
    let write = |name: &str, what: &str, bytes: &[u8]| {
        let base64 = json!(ByteString(bytes.to_vec()));
        let base64 = base64.as_str().unwrap();
        let pem = format!("-----BEGIN {what} KEY-----\n{base64}\n-----END {what} KEY-----\n");
        fs::write(folder.join(name), pem).unwrap();
    };
    write("accounts.key", "PRIVATE", private.as_ref());
    write("accounts.pub", "PUBLIC", &public);
}
