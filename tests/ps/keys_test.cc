#include <sys/stat.h>
#include <boost/test/unit_test.hpp>

#include <troupe/ps/transport/keys.h>
#include <troupe/ps/transport/network_transport.h>

#include <tests/support/inbox.h>
#include <tests/support/network.h>
#include <tests/support/temp_folder.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(keys)

namespace {

const Endpoint kClient{Role::client, 5, 1};
const Endpoint kNode{Role::node, kUnassigned, 7};

mode_t mode_of(const std::string& path) {
  struct stat status {};
  BOOST_REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

std::string error_of(const std::string& folder, KeyRole role) {
  const auto keys = load_keys(folder, role);
  return keys ? "" : keys.error().message;
}

std::shared_ptr<const Keys> keys_in(const std::string& folder, KeyRole role) {
  auto keys = load_keys(folder, role);
  BOOST_REQUIRE_MESSAGE(keys, keys.error().message);
  return std::make_shared<const Keys>(std::move(*keys));
}

/// The keys of a run and its coordinator, which listens on `listen`.
struct Run {
  explicit Run(const std::string& listen = "tcp://127.0.0.1:0") {
    BOOST_REQUIRE(make_keys(folder.path()));
    coordinator = open({.listen = listen, .keys = keys_in(folder.path(), KeyRole::coordinator)});
    coordinator->attach(kCoordinator, inbox.sink());
  }
  ~Run() { coordinator->close(); }

  TransportPtr process(KeyRole role) {
    return open({.home = coordinator->address().address, .keys = keys_in(folder.path(), role)});
  }
  int64_t refused(RefusalReason reason) const { return coordinator->counters().refused[static_cast<size_t>(reason)]; }
  TempFolder folder;
  Inbox inbox;
  TransportPtr coordinator;
};

}  // namespace

BOOST_AUTO_TEST_CASE(SecretsAreForTheirOwnerAlone) {
  TempFolder outer;
  const std::string folder = outer / "keys";
  const mode_t before = ::umask(0);
  BOOST_REQUIRE(make_keys(folder));
  ::umask(before);
  BOOST_TEST(mode_of(folder) == 0700u);
  for (const char* name : {"coordinator", "node", "client"}) BOOST_TEST(mode_of(folder + '/' + name + ".key") == 0600u);
  BOOST_TEST(mode_of(folder + "/public.keys") == 0644u);
}

BOOST_AUTO_TEST_CASE(WhatIsMadeCanBeLoaded) {
  TempFolder folder;
  BOOST_REQUIRE(make_keys(folder.path()));
  for (const KeyRole role : {KeyRole::coordinator, KeyRole::node, KeyRole::client}) {
    const auto keys = keys_in(folder.path(), role);
    BOOST_TEST(keys->allowed.size() == 3u);
    BOOST_TEST((keys->allowed.at(keys->public_key) == role));
    BOOST_TEST((keys->allowed.at(keys->coordinator()) == KeyRole::coordinator));
  }
}

BOOST_AUTO_TEST_CASE(KeysAreNotOverwritten) {
  TempFolder folder;
  folder.write("node.key", "mine");
  const Status made = make_keys(folder.path());
  BOOST_REQUIRE(!made);
  BOOST_TEST(made.error().message ==
             folder / "node.key" + ": is there already, and a run may use it: name another folder, or delete it");
  BOOST_TEST(folder.read("node.key") == "mine");
  BOOST_TEST(::access((folder / "client.key").c_str(), F_OK) != 0);
}

BOOST_AUTO_TEST_CASE(ASecretThatOthersCanReadIsRefused) {
  TempFolder folder;
  BOOST_REQUIRE(make_keys(folder.path()));
  const std::string path = folder / "node.key";
  ::chmod(path.c_str(), 0640);
  BOOST_TEST(error_of(folder.path(), KeyRole::node) ==
             path + ": mode 0640 lets other users read the secret: chmod 600 " + path);
  ::chmod(path.c_str(), 0400);
  BOOST_TEST(error_of(folder.path(), KeyRole::node) == "");
}

BOOST_AUTO_TEST_CASE(AListThatOthersCanChangeIsRefused) {
  TempFolder folder;
  BOOST_REQUIRE(make_keys(folder.path()));
  const std::string path = folder / "public.keys";
  ::chmod(path.c_str(), 0666);
  BOOST_TEST(error_of(folder.path(), KeyRole::node) ==
             path + ": mode 0666 lets other users change it: chmod 644 " + path);
}

BOOST_AUTO_TEST_CASE(AMissingFileSaysWhereKeysComeFrom) {
  TempFolder folder;
  BOOST_TEST(error_of(folder.path(), KeyRole::node) ==
             folder / "public.keys" +
                 ": cannot be read: No such file or directory: make a run's keys with troupe keys "
                 "DIR, and copy what this process needs");
}

BOOST_AUTO_TEST_CASE(ADamagedPairIsRefused) {
  TempFolder folder;
  BOOST_REQUIRE(make_keys(folder.path()));
  std::string text = folder.read("node.key");
  text[text.size() - 2] = text[text.size() - 2] == 'a' ? 'b' : 'a';
  folder.write("node.key", text);
  BOOST_TEST(error_of(folder.path(), KeyRole::node) ==
             folder / "node.key" + ": holds no pair of keys that belong together; copy the file again");
}

BOOST_AUTO_TEST_CASE(AKeyOfAnotherRunIsRefused) {
  TempFolder folder, other;
  BOOST_REQUIRE(make_keys(folder.path()));
  BOOST_REQUIRE(make_keys(other.path()));
  folder.write("node.key", other.read("node.key"));
  BOOST_TEST(error_of(folder.path(), KeyRole::node).find("its public key is not in ") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(AListWithNonsenseIsRefused) {
  TempFolder folder;
  BOOST_REQUIRE(make_keys(folder.path()));
  const std::string list = folder.read("public.keys");
  for (const char* line : {"king 0123456789012345678901234567890123456789\n", "node short\n", "node\n", "a b c\n"}) {
    folder.write("public.keys", list + line);
    BOOST_TEST(error_of(folder.path(), KeyRole::node) != "");
  }
}

BOOST_AUTO_TEST_CASE(ListedKeysMayTalk) {
  Run run;
  Inbox at_node;
  auto node = run.process(KeyRole::node);
  node->attach(kNode, at_node.sink());
  BOOST_TEST(node->address().public_key.size() == 40u);
  node->send({kNode, kCoordinator, 0, Hello{"node", node->address(), true, true, -1}});
  BOOST_REQUIRE_EQUAL(run.inbox.wait(1).size(), 1u);
  run.coordinator->send({kCoordinator, kNode, 0, Welcome{}});
  BOOST_TEST(at_node.wait(1).size() == 1u);
}

BOOST_AUTO_TEST_CASE(NodesFindEachOtherByTheKeysInTheRoutes) {
  Run run;
  Inbox at_server;
  auto worker = run.process(KeyRole::node), server = run.process(KeyRole::node);
  server->attach(kServer, at_server.sink());
  connect({{run.coordinator, {kCoordinator}}, {worker, {kWorker}}, {server, {kServer}}});
  Push push;
  push.gradients = {ramp(100000)};
  worker->send({kWorker, kServer, 1, push});
  BOOST_TEST(at_server.wait(1).size() == 1u);
}

BOOST_AUTO_TEST_CASE(ARouteWithAnUnknownKeyIsNotTaken) {
  Run run, other;
  auto worker = run.process(KeyRole::node);
  worker->set_self(1);
  worker->set_routes(routes_of({{other.coordinator->address(), {kCoordinator}}, {worker->address(), {}}}));
  BOOST_TEST(worker->counters().refused[static_cast<size_t>(RefusalReason::key)] == 1);
}

BOOST_AUTO_TEST_CASE(AnUnknownKeyIsNotLetIn) {
  Run run;
  TempFolder other;
  BOOST_REQUIRE(make_keys(other.path()));
  // It knows whom to expect, but is not on the list.
  Keys keys = *keys_in(other.path(), KeyRole::node);
  keys.allowed = {{keys_in(run.folder.path(), KeyRole::client)->coordinator(), KeyRole::coordinator}};
  auto stranger = open({.home = run.coordinator->address().address, .keys = std::make_shared<const Keys>(keys)});
  stranger->send({kNode, kCoordinator, 0, Heartbeat{}});
  BOOST_TEST(eventually([&] { return run.refused(RefusalReason::key) > 0; }));
  BOOST_TEST(eventually([&] { return stranger->counters().refused_in_all() > 0; }));
  BOOST_TEST(run.inbox.size() == 0u);
}

BOOST_AUTO_TEST_CASE(WhoeverHasNoKeyIsNotLetIn) {
  Run run;
  auto stranger = open({.home = run.coordinator->address().address});
  stranger->send({kNode, kCoordinator, 0, Heartbeat{}});
  BOOST_TEST(eventually([&] { return run.refused(RefusalReason::handshake) > 0; }));
  BOOST_TEST(eventually([&] { return stranger->counters().refused_in_all() > 0; }));
  BOOST_TEST(run.inbox.size() == 0u);
}

BOOST_AUTO_TEST_CASE(ACoordinatorWithAnotherKeyGetsNoMessages) {
  Run run, other;
  auto node = open({.home = other.coordinator->address().address, .keys = keys_in(run.folder.path(), KeyRole::node)});
  node->send({kNode, kCoordinator, 0, Heartbeat{}});
  BOOST_TEST(eventually([&] { return node->counters().refused_in_all() > 0; }));
  BOOST_TEST(other.inbox.size() == 0u);
}

BOOST_AUTO_TEST_CASE(AClientsKeySpeaksForClientsAlone) {
  Run run;
  auto client = run.process(KeyRole::client);
  client->send({kServer, kCoordinator, 0, Leave{}});
  BOOST_TEST(eventually([&] { return run.refused(RefusalReason::role) == 1; }));
  client->send({kNode, kCoordinator, 0, Heartbeat{}});
  BOOST_TEST(eventually([&] { return run.refused(RefusalReason::role) == 2; }));
  client->send({kClient, kCoordinator, 0, StatusRequest{}});
  BOOST_REQUIRE_EQUAL(run.inbox.wait(1).size(), 1u);
  BOOST_TEST(run.inbox.wait(1)[0]->from == kClient);
}

BOOST_AUTO_TEST_CASE(ANodesKeyDoesNotSpeakForTheCoordinator) {
  Run run;
  Inbox at_server;
  auto worker = run.process(KeyRole::node), server = run.process(KeyRole::node);
  server->attach(kServer, at_server.sink());
  connect({{run.coordinator, {kCoordinator}}, {worker, {kWorker}}, {server, {kServer}}});
  worker->send({kCoordinator, kServer, 1, Finish{}});
  BOOST_TEST(eventually([&] { return server->counters().refused[static_cast<size_t>(RefusalReason::role)] == 1; }));
  BOOST_TEST(at_server.size() == 0u);
}

BOOST_AUTO_TEST_CASE(WithKeysEveryInterfaceMayBeListenedOn) {
  Run run("tcp://*:0");
  auto node = run.process(KeyRole::node);
  node->send({kNode, kCoordinator, 0, Heartbeat{}});
  BOOST_TEST(run.inbox.wait(1).size() == 1u);
}

BOOST_AUTO_TEST_CASE(OverIpcTheFileSystemDecides) {
  TempFolder folder;
  Run run("ipc://" + folder / "socket");
  auto node = run.process(KeyRole::node);
  node->send({kNode, kCoordinator, 0, Heartbeat{}});
  BOOST_TEST(run.inbox.wait(1).size() == 1u);
}

BOOST_AUTO_TEST_CASE(WhoHearsThatRoutesAreRefusedMayAskTheTransport) {
  Run run;
  TransportPtr node;
  std::string heard;
  NetworkOptions options{.home = run.coordinator->address().address, .keys = keys_in(run.folder.path(), KeyRole::node)};
  options.on_refused = [&](const Refusal& refusal) { heard = refusal.peer + " told " + node->address().address; };
  node = open(std::move(options));
  node->set_routes({1, {{5, "tcp://127.0.0.1:1", "no key", ""}}, {}});
  node->close();  // once all is reported
  BOOST_TEST(heard == "tcp://127.0.0.1:1 told " + node->address().address);
}

BOOST_AUTO_TEST_SUITE_END()
