// Before the page's own script: collects what goes wrong.
window.trouble = [];
addEventListener('error', event => trouble.push(`error: ${event.message}`));
addEventListener('unhandledrejection', event => trouble.push(`rejected: ${event.reason}`));
addEventListener('securitypolicyviolation', event => trouble.push(`loads ${event.blockedURI}`));
for (const name of ['error', 'warn']) {
  const say = console[name];
  console[name] = (...words) => { trouble.push(`${name}: ${words.join(' ')}`); say(...words); };
}
