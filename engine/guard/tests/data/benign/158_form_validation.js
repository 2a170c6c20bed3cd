const form = document.querySelector('#signup');

const rules = {
  email: [
    [(v) => v.trim() !== '', 'Please enter your e-mail address'],
    [(v) => /^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(v), 'This does not look like an e-mail address'],
  ],
  password: [
    [(v) => v.length >= 10, 'Use at least 10 characters'],
    [(v) => /\d/.test(v), 'Add a digit'],
  ],
  confirm: [[(v) => v === form.elements.password.value, 'The passwords differ']],
  terms: [[(_, el) => el.checked, 'Please accept the terms']],
};

function validateField(name) {
  const el = form.elements[name];
  const failed = rules[name].find(([test]) => !test(el.value, el));
  const slot = form.querySelector(`[data-error-for="${name}"]`);
  slot.textContent = failed ? failed[1] : '';
  el.setAttribute('aria-invalid', String(Boolean(failed)));
  return !failed;
}

Object.keys(rules).forEach((name) => {
  form.elements[name].addEventListener('blur', () => validateField(name));
});

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const valid = Object.keys(rules).map(validateField).every(Boolean);
  if (!valid) {
    form.querySelector('[aria-invalid="true"]').focus();
    return;
  }
  const button = form.querySelector('button[type=submit]');
  button.disabled = true;
  try {
    const res = await fetch(form.action, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': form.elements.csrf.value },
      body: JSON.stringify({ email: form.elements.email.value, password: form.elements.password.value }),
    });
    const data = await res.json();
    if (!res.ok) throw new Error(data.message || 'Registration failed');
    window.location.assign('/welcome');
  } catch (err) {
    form.querySelector('.form-error').textContent = err.message;
  } finally {
    button.disabled = false;
  }
});
