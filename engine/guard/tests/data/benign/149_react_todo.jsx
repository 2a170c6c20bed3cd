import React, { useEffect, useReducer, useState } from 'react';

const STORAGE_KEY = 'todos';

function reducer(state, action) {
  switch (action.type) {
    case 'add':
      return [...state, { id: crypto.randomUUID(), text: action.text, done: false }];
    case 'toggle':
      return state.map((t) => (t.id === action.id ? { ...t, done: !t.done } : t));
    case 'remove':
      return state.filter((t) => t.id !== action.id);
    case 'clear':
      return state.filter((t) => !t.done);
    default:
      throw new Error(`unknown action ${action.type}`);
  }
}

function load() {
  try {
    return JSON.parse(localStorage.getItem(STORAGE_KEY)) ?? [];
  } catch {
    return [];
  }
}

export default function TodoList() {
  const [todos, dispatch] = useReducer(reducer, undefined, load);
  const [text, setText] = useState('');

  useEffect(() => {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(todos));
  }, [todos]);

  function handleSubmit(e) {
    e.preventDefault();
    if (!text.trim()) return;
    dispatch({ type: 'add', text: text.trim() });
    setText('');
  }

  const open = todos.filter((t) => !t.done).length;
  return (
    <section>
      <h1>Todos ({open} open)</h1>
      <form onSubmit={handleSubmit}>
        <input value={text} onChange={(e) => setText(e.target.value)} placeholder="What needs doing?" />
        <button>Add</button>
      </form>
      <ul>
        {todos.map((t) => (
          <li key={t.id}>
            <label style={{ textDecoration: t.done ? 'line-through' : 'none' }}>
              <input type="checkbox" checked={t.done} onChange={() => dispatch({ type: 'toggle', id: t.id })} />
              {t.text}
            </label>
            <button onClick={() => dispatch({ type: 'remove', id: t.id })}>x</button>
          </li>
        ))}
      </ul>
      {open < todos.length && <button onClick={() => dispatch({ type: 'clear' })}>Clear done</button>}
    </section>
  );
}
