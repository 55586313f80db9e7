// Runs before the page's own script and collects errors.
window.trouble = [];
addEventListener('error', event => trouble.push(`error: ${event.message}`));
addEventListener('unhandledrejection', event => trouble.push(`rejected: ${event.reason}`));
addEventListener('securitypolicyviolation', event => trouble.push(`loads ${event.blockedURI}`));
for (const name of ['error', 'warn']) {
  const say = console[name];
  console[name] = (...words) => { trouble.push(`${name}: ${words.join(' ')}`); say(...words); };
}
