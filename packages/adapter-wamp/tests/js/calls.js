// Calls procedures with autobahn-js. In: one JSON object on stdin (url, realm, serializer, calls, auth or null).
// Out: one line of JSON, a list with an outcome for each call; or exit code 1 and the reason on stderr.
"use strict";

const autobahn = require("autobahn");

const serializers = {
  json: autobahn.serializer.JSONSerializer,
  msgpack: autobahn.serializer.MsgpackSerializer,
  cbor: autobahn.serializer.CBORSerializer,
};

function plain(result) {
  if (result instanceof autobahn.Result) {
    return { args: result.args, kwargs: result.kwargs };
  }
  return result === undefined ? null : result;
}

async function outcome(session, { procedure, args, kwargs }) {
  try {
    return { result: plain(await session.call(procedure, args, kwargs)) };
  } catch (error) {
    if (!(error instanceof autobahn.Error)) {
      throw error;
    }
    return { error: error.error, args: error.args || [], kwargs: error.kwargs || {} };
  }
}

function credentials(auth) {
  if (!auth) {
    return {};
  }
  const onchallenge = (session, method, extra) =>
    method === "ticket" ? auth.secret : autobahn.auth_cra.sign(auth.secret, extra.challenge);
  return { authmethods: [auth.method], authid: auth.authid, onchallenge };
}

function run({ url, realm, serializer, calls, auth }) {
  const connection = new autobahn.Connection({
    url,
    realm,
    serializers: [new serializers[serializer]()],
    ...credentials(auth),
    max_retries: 0,
    use_es6_promises: true,
  });
  let outcomes = null;
  connection.onopen = async (session) => {
    try {
      const made = [];
      for (const call of calls) {
        made.push(await outcome(session, call));
      }
      outcomes = made;
    } catch (error) {
      console.error(error);
    }
    connection.close();
  };
  connection.onclose = (reason, details) => {
    if (outcomes === null) {
      console.error(`the session ended too early: ${reason} ${details && details.reason}`);
      process.exitCode = 1;
    } else {
      process.stdout.write(JSON.stringify(outcomes) + "\n");
    }
    return true; // no retries
  };
  connection.open();
}

let input = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk) => (input += chunk));
process.stdin.on("end", () => run(JSON.parse(input)));
