// An independent client walks the workflow in rehearsal. Usage: node walk.mjs ERA SERVER_COMMAND_JSON
// One JSON line per step; exit code 0 when every step had the status it should have.
const [era, command] = [process.argv[2], JSON.parse(process.argv[3])];
const question = [];
const answer = async (request) => {
  question.push(request.params.message);
  return { action: "accept", content: { approve: true } };
};
const info = { name: "typescript-walk", version: "1" };
const server = { command: command[0], args: command.slice(1), stderr: "inherit", env: process.env };
const client = await (era === "modern" ? modern() : legacy());

async function modern() {
  const { Client } = await import("@modelcontextprotocol/client");
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const made = new Client(info, { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: "auto" } });
  made.setRequestHandler("elicitation/create", answer);
  await made.connect(new StdioClientTransport(server));
  return made;
}

async function legacy() {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
  const { ElicitRequestSchema } = await import("@modelcontextprotocol/sdk/types.js");
  const made = new Client(info, { capabilities: { elicitation: {} } });
  made.setRequestHandler(ElicitRequestSchema, answer);
  await made.connect(new StdioClientTransport(server));
  return made;
}

let wrong = 0;
const say = (line) => console.log(JSON.stringify(line));

async function call(name, expected, args = {}) {
  const options = { timeout: 240000, maxTotalTimeout: 240000 };
  const result = era === "modern"
    ? await client.callTool({ name, arguments: args }, options)
    : await client.callTool({ name, arguments: args }, undefined, options);
  const report = result.structuredContent;
  if (report.status !== expected) wrong += 1;
  const codes = report.findings.filter((f) => f.severity === "blocker").map((f) => f.code);
  say({ tool: name, status: report.status, expected, summary: report.summary, codes, unmet: report.unmet });
  return report.data;
}

const tools = (await client.listTools()).tools.map((tool) => tool.name);
const resources = (await client.listResources()).resources.map((resource) => resource.uri);
const templates = (await client.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate);
const prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
say({ tools, resources, templates, prompts });
const guide = await client.readResource({ uri: "lab://guide/workflow" });
say({ guide: guide.contents[0].text.length });
const prompt = await client.getPrompt({ name: "build_environment", arguments: { task: "add numbers" } });
say({ prompt: prompt.messages[0].content.text.includes("add numbers") });

const environment = "harvest-sums";
const model = "Qwen/Qwen3-4B-Instruct-2507";
await call("workflow_status", "passed");
await call("inspect_dataset", "passed", { dataset: "harvest.jsonl" });
await call("create_environment", "passed", { name: environment, dataset: "harvest.jsonl" });
await call("submit_training", "blocked", { environment, model });
await call("check_environment", "passed", { environment });
await call("test_reward", "passed", { environment });
await call("run_eval", "passed", { environment, model, num_examples: 32, rollouts: 4, wait_seconds: 200 });
await call("check_reward_distribution", "passed", { environment });
const pushed = await call("push_environment", "passed", { environment, visibility: "PRIVATE" });
const source = `${pushed.owner}/${pushed.name}@${pushed.version}`;
const written = await call("write_training_config", "passed", { environments: [source], model, steps: 10, batch: 64, group: 16 });
await call("check_training_config", "passed", { path: written.path });
// The held-out tasks are scored by the same reward, which is tested on them too.
await call("test_reward", "passed", { environment, env_args: { split: "eval" } });
const run = await call("submit_training", "passed", { config: written.path });
for (let attempt = 0; attempt < 60; attempt += 1) {
  const report = (await client.callTool({ name: "watch_run", arguments: { id: run.id } })).structuredContent;
  say({ tool: "watch_run", status: report.status, summary: report.summary });
  if (report.status !== "running") {
    if (report.status !== "passed") wrong += 1;
    break;
  }
  await new Promise((resolve) => setTimeout(resolve, 1500));
}
say({ asked: question.length, wrong });
await client.close();
process.exit(wrong ? 1 : 0);
