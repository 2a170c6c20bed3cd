const { ApolloServer } = require('@apollo/server');
const { startStandaloneServer } = require('@apollo/server/standalone');
const { GraphQLError } = require('graphql');

const typeDefs = `#graphql
  type Author { id: ID!, name: String!, books: [Book!]! }
  type Book { id: ID!, title: String!, author: Author! }
  type Query {
    books(search: String): [Book!]!
    author(id: ID!): Author
  }
  type Mutation {
    addBook(title: String!, authorId: ID!): Book!
    deleteBook(id: ID!): Boolean!
  }
`;

const authors = [{ id: '1', name: 'First Author' }, { id: '2', name: 'Second Author' }];
let books = [{ id: '1', title: 'GraphQL in a day', authorId: '1' }];
let nextId = 2;

const resolvers = {
  Query: {
    books: (_, { search }) => (search ? books.filter((b) => b.title.toLowerCase().includes(search.toLowerCase())) : books),
    author: (_, { id }) => authors.find((a) => a.id === id),
  },
  Mutation: {
    addBook: (_, { title, authorId }) => {
      if (!authors.some((a) => a.id === authorId)) {
        throw new GraphQLError('unknown author', { extensions: { code: 'BAD_USER_INPUT' } });
      }
      const book = { id: String(nextId++), title, authorId };
      books.push(book);
      return book;
    },
    deleteBook: (_, { id }) => {
      const before = books.length;
      books = books.filter((b) => b.id !== id);
      return books.length < before;
    },
  },
  Author: { books: (a) => books.filter((b) => b.authorId === a.id) },
  Book: { author: (b) => authors.find((a) => a.id === b.authorId) },
};

startStandaloneServer(new ApolloServer({ typeDefs, resolvers }), { listen: { port: 4000 } }).then(({ url }) =>
  console.log(`server at ${url}`)
);
